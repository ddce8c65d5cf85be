// SPDX-License-Identifier: Apache-2.0
#include "limit.hpp"

#include "sums.hpp"
#include <ostraka/comm/impl/vectors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

namespace ostraka::bench {

namespace {

constexpr std::int64_t tile_bytes = 2048;

struct Buffers {
  DType dtype;
  std::int64_t bytes;
  std::vector<std::unique_ptr<std::byte, decltype(&std::free)>> memory;
  std::vector<std::byte*> sources, outs;

  Buffers(const Work& work, DType type) : dtype(type), bytes(work.bytes) {
    for (int i = 0; i < work.sources; ++i)
      sources.push_back(add());
    for (int i = 0; i < work.outs; ++i)
      outs.push_back(work.in_place ? sources[static_cast<std::size_t>(i)] : add());
  }

  std::byte* add() {
    const auto rounded = static_cast<std::size_t>((bytes / 4096 + 1) * 4096);
    memory.emplace_back(static_cast<std::byte*>(std::aligned_alloc(4096, rounded)), &std::free);
    std::memset(memory.back().get(), 0, rounded); // touches the memory
    return memory.back().get();
  }

  // out = the sum of all sources from byte `at` on.
  void sum_tile(std::byte* out, std::int64_t at, std::int64_t size) const {
    sum_two(dtype, out, sources[0] + at, sources[1] + at, size);
    for (std::size_t k = 2; k < sources.size(); ++k)
      sum_two(dtype, out, out, sources[k] + at, size);
  }
};

void copy_through(const Buffers& all) { std::memcpy(all.outs[0], all.sources[0], static_cast<std::size_t>(all.bytes)); }

void copy_around(const Buffers& all) {
  comm::impl::stream(all.outs[0], all.sources[0], all.bytes);
  comm::impl::fence();
}

void sum_through(const Buffers& all) {
  if (all.sources.size() == 2 && all.outs.size() == 1)
    return sum_two(all.dtype, all.outs[0], all.sources[0], all.sources[1], all.bytes);
  for (std::int64_t at = 0; at < all.bytes; at += tile_bytes) {
    const std::int64_t size = std::min(tile_bytes, all.bytes - at);
    all.sum_tile(all.outs[0] + at, at, size);
    for (std::size_t k = 1; k < all.outs.size(); ++k)
      std::memcpy(all.outs[k] + at, all.outs[0] + at, static_cast<std::size_t>(size));
  }
}

void sum_around(const Buffers& all) {
  alignas(64) std::byte tile[tile_bytes];
  for (std::int64_t at = 0; at < all.bytes; at += tile_bytes) {
    const std::int64_t size = std::min(tile_bytes, all.bytes - at);
    all.sum_tile(tile, at, size);
    for (std::byte* out : all.outs)
      comm::impl::stream(out + at, tile, size);
  }
  comm::impl::fence();
}

} // namespace

Operation make_limit(const Work& work, DType dtype) {
  const auto buffers = std::make_shared<const Buffers>(work, dtype);
  const bool copies = work.sources == 1;
  const Operation through = [=] { copies ? copy_through(*buffers) : sum_through(*buffers); };
  const Operation around = [=] { copies ? copy_around(*buffers) : sum_around(*buffers); };
  const int repeats = choose_repeats(through);
  const Rounds rounds = measure({through, around}, {repeats, repeats}, 5);
  return rounds.median(0) <= rounds.median(1) ? through : around;
}

} // namespace ostraka::bench
