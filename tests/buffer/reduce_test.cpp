// SPDX-License-Identifier: Apache-2.0
// Reductions of one axis with known answers (spec 6.2), every reduction of every type, and rounding.
#include "reduction_model.hpp"

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> padded{{5, 4}, {2, 6}, {3}};

TEST(Allreduce, SumAndAverage) {
  const auto mesh = mesh_of({ranks});
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32}) {
    const auto layout = reference_of(padded);
    const auto ten = [&](std::int64_t i) {
      return layout->tensor_range(1).begin <= i && i < layout->tensor_range(1).end ? 10 : 1;
    };
    const DBuffer partial_sum(mesh, {P}, layout, dtype);
    fill(partial_sum, [&](std::int64_t i) { return (rank + 1) * ten(i); });
    const DBuffer out = partial_sum.allreduce(0);
    EXPECT_EQ(out.placements(), Placements{R});
    expect_values(out, [&](std::int64_t i) { return triangle(ranks) * ten(i); });
    expect_values(partial_sum, [&](std::int64_t i) { return (rank + 1) * ten(i); });
    const DBuffer in_place = partial_sum.view({R}); // the same address
    EXPECT_EQ(partial_sum.allreduce(0, &in_place).data(), partial_sum.data());
    expect_values(in_place, [&](std::int64_t i) { return triangle(ranks) * ten(i); });
    if (!is_floating(dtype))
      continue;
    const DBuffer average(mesh, {A}, layout, dtype), mean(mesh, {R}, layout, dtype);
    fill(average, [&](std::int64_t i) { return 2 * (rank + 1) * ten(i); });
    spoil(mean);
    average.allreduce(0, &mean);
    expect_values(mean, [&](std::int64_t i) { return (ranks + 1) * ten(i); });
  }
}

TEST(ReduceScatter, SumIntoAViewAndAverageIntoFresh) {
  const auto mesh = mesh_of({ranks});
  const auto pattern = [](double factor) {
    return [factor](std::int64_t i) { return factor * (1 + static_cast<double>(i % 3)); };
  };
  for (const DType dtype : all_types)
    for (const LayoutPtr& layout : every_layout(padded)) {
      const DBuffer in(mesh, {P}, layout, dtype);
      fill(in, pattern(rank + 1));
      const DBuffer fresh = in.reduce_scatter(0);
      EXPECT_EQ(fresh.placements(), Placements{S});
      expect_values(fresh, pattern(triangle(ranks)));
      expect_values(in, pattern(rank + 1));
      const DBuffer view = in.view({S});
      in.reduce_scatter(0, &view);
      expect_values(view, pattern(triangle(ranks)));
      expect_values(view.allgather(0), pattern(triangle(ranks)));
      if (!is_floating(dtype))
        continue;
      const DBuffer average(mesh, {A}, layout, dtype);
      fill(average, pattern(2 * (rank + 1)));
      expect_values(average.reduce_scatter(0), pattern(ranks + 1));
    }
}

/// Values that tell reductions and ranks apart: both signs, beyond what signed comparison of u8 gets right, sums and
/// products of integers that wrap around, floating ones that are exact in any order.
double telling(ReduceOp op, DType dtype, int r, std::int64_t i) {
  const std::int64_t mixed = 71 * r + 37 * i;
  if (op == ReduceOp::prod)
    return dtype == DType::u8 ? static_cast<double>(1 + mixed % 7)
                              : static_cast<double>((mixed % 3 == 0 ? -1 : 1) * (1 + mixed % 2));
  if (dtype == DType::u8)
    return static_cast<double>(mixed % 256);
  if (dtype == DType::i32)
    return static_cast<double>((mixed % 2 == 0 ? 1 : -1) * (0x7fffffff - mixed));
  return static_cast<double>(24 * (mixed % 11 - 5));
}

TEST(Reductions, EveryOneOfEveryType) {
  const auto mesh = mesh_of({ranks});
  const std::vector<Shape> odd{{3, 5}, {}, {11}};
  for (const DType dtype : all_types)
    for (const ReduceOp op : all_ops) {
      if (op == ReduceOp::mean && !is_floating(dtype))
        continue;
      SCOPED_TRACE(std::string(layout::name(op)) + " of " + name(dtype));
      const auto expected = [&](std::int64_t i) {
        std::vector<double> values;
        for (int r = 0; r < ranks; ++r)
          values.push_back(telling(op, dtype, r, i));
        return reduced(op, dtype, values);
      };
      for (const LayoutPtr& layout : {reference_of(odd), share(build_ragged(odd, ranks, {row_atom()}))}) {
        const DBuffer in(mesh, {partial(op)}, layout, dtype);
        fill(in, [&](std::int64_t i) { return telling(op, dtype, rank, i); });
        expect_values(in.allreduce(0), expected);
        expect_values(in.reduce_scatter(0), expected);
        expect_values(in, [&](std::int64_t i) { return telling(op, dtype, rank, i); });
      }
    }
}

TEST(Reductions, MeansOfIntegersAreRefused) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
    expect_error(Status::TYPE_MISMATCH, [&] { DBuffer(mesh, {A}, layout, dtype); }, {"mean", name(dtype)});
    const DBuffer whole(mesh, {R}, layout, dtype);
    expect_error(Status::TYPE_MISMATCH, [&] { whole.redistribute({A}); }, {"mean", name(dtype)});
    const DBuffer average(mesh, {A}, layout, DType::f32);
    expect_error(Status::TYPE_MISMATCH, [&] { average.cast(dtype); }, {"mean", name(dtype)});
  }
}

/// Bits that look random (splitmix64).
std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

// 16-bit floats: f32 in rank order, rounded once, on segments of odd sizes.
TEST(SixteenBits, AreRoundedOnce) {
  const auto mesh = mesh_of({ranks});
  for (const std::uint64_t seed : {std::uint64_t{5}, fresh_seed("SixteenBits.AreRoundedOnce")})
    for (const DType dtype : {DType::bf16, DType::f16})
      for (const ReduceOp op : all_ops) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", " + layout::name(op) + " of " + name(dtype));
        const auto contribution = [&](int r, std::int64_t i) {
          const std::uint64_t mixed = scrambled(seed + static_cast<std::uint64_t>(r * 10'000 + i));
          const double number = static_cast<double>(mixed % 100'000) - 50'000;
          return converted(std::ldexp(number, -14 - static_cast<int>(mixed / 100'000 % 6)), dtype);
        };
        const auto expected = [&](std::int64_t i) {
          std::vector<double> values;
          for (int r = 0; r < ranks; ++r)
            values.push_back(contribution(r, i));
          return reduced(op, dtype, values);
        };
        for (const auto& shapes : {std::vector<Shape>{{3, 3}, {13}}, {{1}}, {{128}, {257}}})
          for (const auto& layout : {share(build_planned(shapes, ranks)), share(build_ragged(shapes, ranks))}) {
            const DBuffer gradient(mesh, {partial(op)}, layout, dtype);
            fill(gradient, [&](std::int64_t i) { return contribution(rank, i); });
            expect_values(gradient.allreduce(0), expected);
            expect_values(gradient.reduce_scatter(0), expected);
            const DBuffer view = gradient.view({S});
            gradient.reduce_scatter(0, &view);
            expect_values(view, expected);
          }
        // A layout that cannot be cut can still be reduced.
        const DBuffer uncut(mesh, {partial(op)}, share(build_planned({{37}}, 1)), dtype);
        fill(uncut, [&](std::int64_t i) { return contribution(rank, i); });
        expect_values(uncut.allreduce(0), expected);
      }
}

TEST(TwoAxes, ReduceTheOuterAxisThenGatherBoth) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    for (const DType dtype : {DType::f64, DType::bf16, DType::i32})
      for (const LayoutPtr& layout : every_layout(padded)) {
        const DBuffer gradient(mesh, {P, S}, layout, dtype);
        fill(gradient, times(mesh->coordinate(0) + 1));
        const DBuffer own = gradient.reduce_scatter(0);
        if (layout->has_equal_segments()) {
          EXPECT_EQ(own.numel(), gradient.numel() / sizes[0]);
        }
        EXPECT_EQ(own.range(), range_of(*layout, {S, S}, sizes, rank));
        expect_values(own, times(triangle(sizes[0])));
        const DBuffer line = own.allgather(0);
        EXPECT_EQ(line.placements(), (Placements{R, S}));
        expect_values(line, times(triangle(sizes[0])));
        expect_values(line.allgather(1), times(triangle(sizes[0])));
      }
  }
}

TEST(TwoAxes, ReduceTheInnerAxis) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const DBuffer gradient(mesh, {P, A}, reference_of(padded), DType::f64);
    fill(gradient, times((mesh->coordinate(1) + 1) * 2 * (mesh->coordinate(0) + 1)));
    const DBuffer line = gradient.reduce_scatter(1); // the mean over the inner axis only
    expect_values(line, times((mesh->coordinate(0) + 1) * (sizes[1] + 1)));
    expect_values(line.reduce_scatter(0), times(triangle(sizes[0]) * (sizes[1] + 1)));
    const DBuffer both = gradient.allreduce(1);
    EXPECT_EQ(both.placements(), (Placements{P, R}));
    expect_values(both, times((mesh->coordinate(0) + 1) * (sizes[1] + 1)));
    expect_values(both.allreduce(0), times(triangle(sizes[0]) * (sizes[1] + 1)));
  }
}

} // namespace
} // namespace ostraka::buffer::test
