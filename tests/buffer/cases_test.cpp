// SPDX-License-Identifier: Apache-2.0
// cases.md: layout and redistribution, reduction.
#include "buffer_test.hpp"
#include <ostraka/buffer/execute.hpp>

namespace ostraka::buffer::test {
namespace {

TEST(Cases, OneShardedByRows) {
  const auto mesh = mesh_of({ranks});
  std::vector<float> numbers;
  for (int i = 0; i < 50; ++i)
    numbers.push_back(static_cast<float>(i));
  const std::vector<const void*> tensors{numbers.data()};
  const DBuffer own = DBuffer::distribute_tensors(tensors, {{5, 10}}, DType::f32, mesh, {S});
  const TensorView view = own.tensor_view(0);
  ASSERT_EQ(view.shape[1], 10);
  std::int64_t total = view.shape[0];
  MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
  EXPECT_EQ(total, 5);
  for (std::int64_t i = 0; i < view.shape[0] * 10; ++i)
    EXPECT_EQ(element(view.data, i, DType::f32), static_cast<double>(view.first_row * 10 + i));
  const DBuffer whole = own.allgather(0);
  EXPECT_EQ(whole.tensor_view(0).shape, (Shape{5, 10}));
  EXPECT_EQ(elements(whole.tensor_view(0).data, 50, DType::f32), std::vector<double>(numbers.begin(), numbers.end()));
}

TEST(Cases, TwoGlobalShapeFromMetadata) {
  const DBuffer own = DBuffer::empty(mesh_of({ranks}), {S}, {{10, 2}}, DType::f64);
  EXPECT_EQ(own.layout()->shape(0), (Shape{10, 2}));
  EXPECT_EQ(own.allgather(0).tensor_view(0).shape, (Shape{10, 2}));
}

TEST(Cases, ThreeRowsSurviveRedistributions) {
  const DBuffer own = DBuffer::empty(mesh_of({ranks}), {S}, {{5, 3}}, DType::f64);
  fill(own, small);
  DBuffer current = own;
  for (int i = 0; i < 3; ++i) {
    current = current.redistribute({R});
    EXPECT_EQ(current.tensor_view(0).shape, (Shape{5, 3}));
    current = current.redistribute({A}).redistribute({S});
    EXPECT_EQ(current.layout()->shape(0), (Shape{5, 3}));
    expect_values(current, small);
  }
}

// On eight ranks the axes have sizes 4 and 2, too.
TEST(Cases, FiveTwoAxesOfNineNumbers) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const std::int64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<const void*> tensors{numbers};
    for (const LayoutPtr& layout : every_layout({{9}})) {
      const DBuffer own = DBuffer::distribute_tensors(tensors, {{9}}, DType::i64, mesh, {S, S}, layout);
      const DBuffer whole = own.redistribute({R, R});
      EXPECT_EQ(elements(whole.tensor_view(0).data, 9, DType::i64), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
    }
  }
}

TEST(Cases, SixWidthsOfARaggedLayout) {
  const auto mesh = mesh_of({ranks});
  std::vector<std::int64_t> widths;
  for (int r = 0; r < ranks; ++r)
    widths.push_back(r + 2);
  const auto layout = segments_of(widths);
  if (ranks == 4) {
    EXPECT_EQ(layout->size(), 14);
  }
  for (const DType dtype : all_types) {
    const DBuffer own(mesh, {S}, layout, dtype);
    ASSERT_EQ(own.numel(), rank + 2);
    fill(own, [](std::int64_t i) { return static_cast<double>(i); });
    expect_values(own.allgather(0), [](std::int64_t i) { return static_cast<double>(i); });
  }
}

TEST(Cases, SevenRanksWithoutRows) {
  const auto mesh = mesh_of({ranks});
  const std::vector<Shape> shapes{{3, 2}};
  for (const LayoutPtr& layout : every_layout(shapes)) {
    SCOPED_TRACE(name(layout->policy()));
    const DBuffer votes(mesh, {Max}, layout, DType::f64);
    fill(votes, [](std::int64_t i) { return static_cast<double>((7 * rank + 3 * i) % 11) - 20; });
    const DBuffer own = votes.reduce_scatter(0);
    const TensorRange range = own.tensor_range(0);
    double largest = -std::numeric_limits<double>::infinity();
    std::int64_t count = range.count;
    for (std::int64_t i = 0; i < count; ++i)
      largest = std::max(largest, element(range.data, i, DType::f64));
    EXPECT_EQ(range.data == nullptr, count == 0);
    MPI_Allreduce(MPI_IN_PLACE, &count, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(count, 6);
    MPI_Allreduce(MPI_IN_PLACE, &largest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    const TensorRange tensor = own.allgather(0).tensor_range(0); // the same from the whole
    double expected = -1e9;
    for (std::int64_t r = 0; r < ranks; ++r)
      for (std::int64_t i = layout->tensor_range(0).begin; i < layout->tensor_range(0).end; ++i)
        expected = std::max(expected, static_cast<double>((7 * r + 3 * i) % 11) - 20);
    EXPECT_EQ(tensor.count, 6);
    EXPECT_EQ(largest, expected); // an empty shard contributes nothing
  }
}

// The mean over shards every time, over replicas once: 27.5 on four ranks.
TEST(Cases, NineOuterReductionOfTheLastMicrobatch) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of({{2 * ranks + 1}, {3}});
    const auto stream = runtime::compute_stream(mesh->device());
    const DBuffer main(mesh, {A, S}, layout, DType::f64), gradient(mesh, {A, A}, layout, DType::f32);
    for (const int ten : {1, 10}) {
      fill(gradient, [&](std::int64_t) { return ten * (rank + 1); });
      accumulate(1.0, gradient.redistribute({A, S}), main, *stream);
    }
    const auto expected = [](std::int64_t) { return 11 * (ranks + 1) / 2.0; };
    expect_values(main.redistribute({R, S}), expected);
    expect_values(main.redistribute({S, S}), expected);
    expect_values(main.redistribute({R, R}), expected);
  }
}

TEST(Cases, ThirteenAverage) {
  const auto mesh = mesh_of({ranks});
  for (const DType dtype : floating_types)
    for (const LayoutPtr& layout : every_layout({{8}, {3}})) {
      const DBuffer gradient(mesh, {A}, layout, dtype);
      fill(gradient, [](std::int64_t) { return rank + 1; });
      const auto mean = [](std::int64_t) { return (ranks + 1) / 2.0; }; // 2.5 on four ranks
      expect_values(gradient.allreduce(0), mean);
      expect_values(gradient.reduce_scatter(0), mean);
    }
}

TEST(Cases, FourteenReduceScatterOfAnAverage) {
  if (ranks != 2)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = mesh_of({ranks});
  const double sent[2][4] = {{2, 4, 6, 8}, {4, 4, 2, 0}}, expected[2][2] = {{3, 4}, {4, 4}};
  for (const DType dtype : floating_types) {
    const DBuffer gradient(mesh, {A}, reference_of({{4}}), dtype);
    fill(gradient, [&](std::int64_t i) { return sent[rank][i]; });
    expect_values(gradient.reduce_scatter(0), [&](std::int64_t i) { return expected[rank][i - 2 * rank]; });
  }
}

TEST(Cases, FortyFourSegmentsOfTwoAxes) {
  for (const std::vector<int>& sizes : two_axes()) {
    const int n0 = sizes[0], n1 = sizes[1];
    const auto mesh = mesh_of(sizes);
    const int i = mesh->coordinate(0), j = mesh->coordinate(1);
    const DBuffer own(mesh, {S, S}, reference_of({{ranks}}), DType::i32);
    ASSERT_EQ(own.numel(), 1);
    set_element(own.data(), 0, DType::i32, n0 * j + i);
    EXPECT_EQ(own.range().begin, n0 * j + i);
    const DBuffer line = own.allgather(0);
    ASSERT_EQ(line.numel(), n0);
    for (int k = 0; k < n0; ++k)
      EXPECT_EQ(element(line.data(), k, DType::i32), n0 * j + k);
    const DBuffer whole = line.allgather(1);
    for (int k = 0; k < n0 * n1; ++k)
      EXPECT_EQ(element(whole.data(), k, DType::i32), k);
    expect_error(Status::INVALID_ARGUMENT, [&] { own.allgather(1); }, {"suffix"});
  }
}

TEST(Cases, ThirtySevenBfloat16Segments) {
  const auto mesh = mesh_of({ranks});
  const auto layout = share(build_flat({{128}, {2560}}, ranks, {32, 8}));
  const DBuffer own(mesh, {S}, layout, DType::bf16);
  if (ranks == 3) {
    EXPECT_EQ(own.numel(), 896);
    EXPECT_EQ(own.bytes(), 1792);
  }
  EXPECT_EQ(own.bytes() % 16, 0);
  const DBuffer gradient(mesh, {P}, layout, DType::bf16);
  fill(gradient, [](std::int64_t i) { return small(i) / 4; });
  gradient.reduce_scatter(0, &own);
  expect_values(own, times(ranks / 4.0));
  expect_values(own.allgather(0), times(ranks / 4.0));
}

TEST(Cases, FortyTwoBlocksOfRows) {
  const auto mesh = mesh_of({ranks});
  expect_error(Status::INVALID_ARGUMENT, [] { build_reference({{48, 64}}, ranks, 32); }, {"tensor 0", "48", "32"});
  const auto short_block = share(build_planned({{48, 64}}, ranks, {}, {block_atom(32)})); // the last one may be short
  const auto blocks = share(build_reference({{64, 64}}, ranks, 32));
  for (const LayoutPtr& layout : {short_block, blocks}) {
    const DBuffer own(mesh, {S}, layout, DType::f32);
    const TensorView view = own.tensor_view(0);
    const std::int64_t rows = layout->shape(0)[0];
    EXPECT_TRUE(view.first_row % 32 == 0 || view.shape[0] == 0);
    EXPECT_TRUE(view.shape[0] % 32 == 0 || view.first_row + view.shape[0] == rows);
    if (ranks == 2) {
      EXPECT_EQ(view.first_row, 32 * rank);
      EXPECT_EQ(view.shape[0], std::min<std::int64_t>(32, rows - 32 * rank));
    }
    std::int64_t total = view.shape[0], owners = total > 0;
    MPI_Allreduce(MPI_IN_PLACE, &total, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(MPI_IN_PLACE, &owners, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(total, rows);
    EXPECT_EQ(owners, std::min(ranks, 2)); // the others own nothing
    fill(own, small);
    expect_values(own.allgather(0), small);
  }
}

} // namespace
} // namespace ostraka::buffer::test
