// SPDX-License-Identifier: Apache-2.0
// Reductions and copies within one process: any number of sources, odd counts and addresses, through the caches and
// around them. Same bits, and nothing beside the target is touched.
#include "oracle.hpp"
#include <ostraka/comm/impl/reduce.hpp>

#include <algorithm>
#include <random>

namespace ostraka::comm::test {
namespace {

constexpr std::int64_t never = std::int64_t{1} << 40, always = 0;
constexpr std::int64_t margin = 64; ///< bytes on both sides of a target
constexpr std::byte untouched{0x5a};

using Bytes = std::vector<std::byte>;

/// Values whose sum depends on the order and on every rounding.
std::vector<double> uneven_values(std::mt19937& random, std::int64_t count, DType dtype) {
  return generated(count, [&](std::int64_t) {
    if (dtype == DType::i32 || dtype == DType::u8 || dtype == DType::i64)
      return static_cast<double>(random() % 20);
    const double fraction = 1 + static_cast<double>(random() % 128) / 128;
    return (random() % 2 == 0 ? -1 : 1) * std::ldexp(fraction, static_cast<int>(random() % 24) - 12);
  });
}

/// A run of elements that starts `offset` elements behind an address that is aligned to 64 bytes.
struct Placed {
  Bytes memory;
  std::byte* data = nullptr;

  Placed(const Bytes& content, std::int64_t offset) : memory(content.size() + 8 * margin, untouched) {
    const auto address = reinterpret_cast<std::uintptr_t>(memory.data());
    data = memory.data() + (2 * margin - static_cast<std::int64_t>(address % margin)) + offset;
    std::copy(content.begin(), content.end(), data);
  }
  bool is_untouched_around(std::size_t bytes) const {
    const auto is_same = [](std::byte value) { return value == untouched; };
    const std::byte* begin = memory.data();
    return std::all_of(begin, static_cast<const std::byte*>(data), is_same) &&
           std::all_of(static_cast<const std::byte*>(data) + bytes, begin + memory.size(), is_same);
  }
};

struct Shape {
  DType dtype;
  ReduceOp op;
  std::size_t sources;
  std::int64_t count;
  int out_is_source = -1; ///< which one
};

void check_reduce(const Shape& shape, std::size_t outs, std::int64_t streams_above, std::mt19937& random) {
  const std::int64_t width = width_of(shape.dtype);
  std::vector<std::vector<double>> inputs;
  std::vector<Placed> runs;
  for (std::size_t k = 0; k < shape.sources; ++k) {
    inputs.push_back(uneven_values(random, shape.count, shape.dtype));
    runs.emplace_back(encode(inputs.back(), shape.dtype), static_cast<std::int64_t>(random() % 17) * width);
  }
  std::vector<double> expected;
  for (std::int64_t i = 0; i < shape.count; ++i) {
    std::vector<double> by_rank;
    for (const auto& input : inputs)
      by_rank.push_back(input[static_cast<std::size_t>(i)]);
    expected.push_back(reduced(shape.op, shape.dtype, by_rank));
  }
  const std::size_t bytes = static_cast<std::size_t>(shape.count * width);
  std::vector<const std::byte*> sources;
  for (const Placed& run : runs)
    sources.push_back(run.data);
  std::vector<Placed> targets;
  std::vector<std::byte*> places;
  targets.reserve(outs);
  for (std::size_t k = 0; k < outs; ++k) {
    targets.emplace_back(Bytes(bytes, untouched), static_cast<std::int64_t>(random() % 17) * width);
    places.push_back(targets.back().data);
  }
  if (shape.out_is_source >= 0)
    places[0] = runs[static_cast<std::size_t>(shape.out_is_source)].data;
  impl::reduce(shape.dtype, shape.op, sources, places, shape.count, streams_above);
  const Bytes correct = encode(expected, shape.dtype);
  for (const std::byte* place : places)
    EXPECT_TRUE(std::equal(correct.begin(), correct.end(), place));
  for (const Placed& target : targets)
    EXPECT_TRUE(target.is_untouched_around(bytes));
}

TEST(Streaming, ReductionsAtOddPlaces) {
  const std::uint64_t seed = fresh_seed("ReductionsAtOddPlaces"); // by all, it is broadcast
  if (rank != 0)
    return;
  std::mt19937 random(static_cast<unsigned>(seed));
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i32, DType::u8})
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean, ReduceOp::max})
      for (const std::size_t sources : {1, 2, 3, 4, 5, 8, 11})
        for (const std::int64_t count : {1, 2, 31, 513, 1041})
          for (const std::int64_t streams_above : {never, always}) {
            if (!is_defined(op, dtype))
              continue;
            SCOPED_TRACE(std::string(name(dtype)) + " " + name(op) + " of " + std::to_string(sources) + ", " +
                         std::to_string(count) + " elements, seed " + std::to_string(seed));
            const int in_place = random() % 2 == 0 ? -1 : static_cast<int>(random() % sources);
            check_reduce({dtype, op, sources, count, in_place}, 1 + random() % 3, streams_above, random);
          }
}

TEST(Streaming, NotANumberStaysOneInPairs) {
  const std::vector<std::uint16_t> quiet{0x7fc1, 0x3f80, 0xff81}, one{0x3f80, 0x7f81, 0x3f80};
  const std::byte* sources[] = {reinterpret_cast<const std::byte*>(quiet.data()),
                                reinterpret_cast<const std::byte*>(one.data())};
  std::vector<std::uint16_t> out(3);
  std::byte* place = reinterpret_cast<std::byte*>(out.data());
  impl::reduce(DType::bf16, ReduceOp::sum, sources, {&place, 1}, 3);
  for (const std::uint16_t bits : out)
    EXPECT_GT(bits & 0x7fff, 0x7f80);
}

TEST(Streaming, CopiesAtOddPlaces) {
  std::mt19937 random(1);
  for (const std::int64_t bytes : {0, 1, 15, 16, 17, 63, 64, 65, 1000, 4097})
    for (const std::int64_t from_offset : {0, 1, 7, 32})
      for (const std::int64_t to_offset : {0, 1, 15, 16})
        for (const std::int64_t streams_above : {never, always}) {
          Bytes content(static_cast<std::size_t>(bytes));
          std::generate(content.begin(), content.end(), [&] { return static_cast<std::byte>(random()); });
          const Placed from(content, from_offset);
          Placed to(Bytes(content.size(), untouched), to_offset);
          impl::copy_bytes(from.data, to.data, bytes, streams_above);
          EXPECT_TRUE(std::equal(content.begin(), content.end(), to.data));
          EXPECT_TRUE(to.is_untouched_around(content.size()));
        }
}

} // namespace
} // namespace ostraka::comm::test
