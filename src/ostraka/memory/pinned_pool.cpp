// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/memory/pinned_pool.hpp>
#include <ostraka/runtime/cuda_memory.hpp>

#include <algorithm>
#include <bit>
#include <utility>

namespace ostraka::memory {

struct PinnedPool::Free {
  ~Free() {
    for (const auto& [bytes, data] : pieces)
      runtime::cuda::free_pinned(data);
  }
  std::vector<std::pair<std::int64_t, std::byte*>> pieces;
};

PinnedPool::PinnedPool() : free_(std::make_shared<Free>()) {}
PinnedPool::~PinnedPool() = default;

std::shared_ptr<Storage> PinnedPool::take(std::int64_t bytes) {
  constexpr std::int64_t least = 4096;
  const auto size = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(std::max(bytes, least))));
  auto& pieces = free_->pieces;
  auto found = std::find_if(pieces.begin(), pieces.end(), [&](const auto& piece) { return piece.first == size; });
  if (found == pieces.end()) {
    pieces.reserve(pieces.size() + 1); // giving back must not throw
    found = pieces.insert(pieces.end(), {size, runtime::cuda::allocate_pinned(size)});
  }
  std::byte* const data = found->second;
  pieces.erase(found);
  return {new Storage(data, bytes, runtime::Device::host), [size, data, pool = free_](Storage* storage) {
            delete storage;
            pool->pieces.emplace_back(size, data);
          }};
}

} // namespace ostraka::memory
