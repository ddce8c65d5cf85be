// SPDX-License-Identifier: Apache-2.0
// 16-bit types: reduced in f32, in rank order, rounded once. Values of very different sizes make other roundings show,
// large ones that cancel make other orders show: with t = 2^26, 1 + t - t is 0 and t - t + 1 is 1.
#include "oracle.hpp"

#include <random>

namespace ostraka::comm::test {
namespace {

constexpr DType half_types[] = {DType::bf16, DType::f16};

using Inputs = std::vector<std::vector<double>>; ///< by rank

double random_value(std::mt19937& random, DType dtype, ReduceOp op) {
  const double sign = random() % 2 == 0 ? -1 : 1;
  const int large = dtype == DType::f16 ? 15 : 26, small = dtype == DType::f16 ? -14 : 0;
  if (op != ReduceOp::prod && random() % 2 == 0)
    return sign * std::ldexp(1, random() % 2 == 0 ? large : small);
  const double fraction = 1 + static_cast<double>(random() % 128) / 128;
  const int exponent = op == ReduceOp::prod ? static_cast<int>(random() % 3) - 1 : static_cast<int>(random() % 24) - 12;
  return sign * std::ldexp(fraction, exponent);
}

Inputs random_inputs(std::uint64_t seed, std::int64_t count, DType dtype, ReduceOp op) {
  Inputs inputs;
  for (int r = 0; r < ranks; ++r) {
    std::mt19937 random(static_cast<unsigned>(seed + static_cast<std::uint64_t>(r)));
    inputs.push_back(generated(count, [&](std::int64_t) { return random_value(random, dtype, op); }));
  }
  return inputs;
}

void check(Communicator& group, runtime::Stream& stream, const Segments& pieces, DType dtype, ReduceOp op,
           std::uint64_t seed) {
  const Inputs inputs = random_inputs(seed, pieces.size(), dtype, op);
  const auto value = [&](int r, std::int64_t i) {
    return inputs[static_cast<std::size_t>(r)][static_cast<std::size_t>(i)];
  };
  const layout::Range own = pieces.range(rank);
  const Operand in = operand(inputs[static_cast<std::size_t>(rank)], dtype), out = operand(own.size(), 0, dtype);
  group.reduce_scatter(stream, in, out, pieces, dtype, op);
  EXPECT_EQ(values(out, own.size(), dtype), all_reduced(op, dtype, own.begin, own.size(), value));
  group.allreduce(stream, in, pieces.size(), dtype, op);
  EXPECT_EQ(values(in, pieces.size(), dtype), all_reduced(op, dtype, 0, pieces.size(), value));
}

TEST(HalfPrecision, EqualsF32InRankOrderRoundedOnce) {
  const auto stream = runtime::make_host_compute_stream();
  for (const std::uint64_t seed : {std::uint64_t{1}, fresh_seed("HalfPrecision")})
    for (const MpiSettings settings : {plain, MpiSettings{true, 64}})
      for (const auto& group : flat_groups("data", settings))
        for (const DType dtype : half_types)
          for (const ReduceOp op : all_reductions) {
            SCOPED_TRACE("seed " + std::to_string(seed) + " " + text(settings) + " " + name(dtype) + " " + name(op));
            for (const std::int64_t count : {1, 2, 3, 7, 64, 397})
              check(*group, *stream, Segments::equal(ranks, count), dtype, op, seed);
            check(*group, *stream, pieces_by([](int k) { return k % 2 == 0 ? 0 : 41; }), dtype, op, seed);
            check(*group, *stream, pieces_by([](int k) { return 101 - 3 * k; }), dtype, op, seed);
          }
}

// Rounding at every step would give 256: 257 is not a bf16.
TEST(HalfPrecision, SmallTermsAreNotLost) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data")) {
    const Operand data = operand(1, rank == 0 ? 256 : 1, DType::bf16);
    group->allreduce(*stream, data, 1, DType::bf16, ReduceOp::sum);
    EXPECT_EQ(values(data, 1, DType::bf16)[0], bf16_value(round_to_bf16(256 + ranks - 1)));
  }
}

} // namespace
} // namespace ostraka::comm::test
