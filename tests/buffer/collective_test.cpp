// SPDX-License-Identifier: Apache-2.0
// Gathers and reductions with known answers (spec 6.2, cases.md).
#include "buffer_test.hpp"
#include <ostraka/buffer/execute.hpp>
#include <ostraka/layout/builders.hpp>

#include <random>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> three{{7, 3}, {2, 5}, {7}};
const std::vector<Shape> padded{{5, 4}, {2, 6}, {3}};
constexpr DType types[] = {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8};

Values times(double factor) {
  return [factor](std::int64_t i) { return factor * small(i); };
}

TEST(Allgather, RoundTrip) {
  const auto mesh = mesh_of({ranks});
  for (const auto& shapes : {three, padded})
    for (const DType dtype : types) {
      const auto layout = reference_of(shapes);
      const DBuffer own(mesh, {S}, layout, dtype);
      fill(own, small);
      const DBuffer gathered = own.allgather(0);
      EXPECT_EQ(gathered.placements(), Placements{R});
      expect_values(gathered, small);
      const DBuffer out(mesh, {R}, layout, dtype);
      const void* const address = out.data();
      EXPECT_EQ(own.allgather(0, &out).data(), address);
      expect_values(out, small);
      // Back: a view, and a copy where out is given.
      const DBuffer view = gathered.redistribute({S});
      EXPECT_TRUE(view.is_alias_of(gathered));
      const DBuffer copy(mesh, {S}, layout, dtype);
      gathered.redistribute({S}, &copy);
      EXPECT_FALSE(copy.is_alias_of(gathered));
      expect_values(view, small);
      expect_values(copy, small);
      // In place: this rank's part of the result is the input.
      fill(
          out, [](std::int64_t) { return 99; }, true);
      const DBuffer part = out.view({S});
      fill(part, small);
      part.allgather(0, &out);
      expect_values(out, small);
    }
}

TEST(Allreduce, SumAndAverage) {
  const auto mesh = mesh_of({ranks});
  const double sum = ranks * (ranks + 1) / 2;
  for (const DType dtype : types) {
    const auto layout = reference_of(padded);
    const auto ten = [&](std::int64_t i) {
      return layout->tensor_range(1).begin <= i && i < layout->tensor_range(1).end ? 10 : 1;
    };
    const DBuffer partial_sum(mesh, {P}, layout, dtype);
    fill(partial_sum, [&](std::int64_t i) { return (rank + 1) * ten(i); });
    const DBuffer out = partial_sum.allreduce(0);
    EXPECT_EQ(out.placements(), Placements{R});
    expect_values(out, [&](std::int64_t i) { return sum * ten(i); });
    expect_values(partial_sum, [&](std::int64_t i) { return (rank + 1) * ten(i); });
    const DBuffer in_place = partial_sum.view({R}); // the same address
    EXPECT_EQ(partial_sum.allreduce(0, &in_place).data(), partial_sum.data());
    expect_values(in_place, [&](std::int64_t i) { return sum * ten(i); });
    if (!is_floating(dtype))
      continue;
    const DBuffer average(mesh, {A}, layout, dtype), mean(mesh, {R}, layout, dtype);
    fill(average, [&](std::int64_t i) { return 2 * (rank + 1) * ten(i); });
    average.allreduce(0, &mean);
    expect_values(mean, [&](std::int64_t i) { return (ranks + 1) * ten(i); });
  }
}

TEST(ReduceScatter, SumIntoAViewAndAverageIntoFresh) {
  const auto mesh = mesh_of({ranks});
  const double sum = ranks * (ranks + 1) / 2;
  for (const DType dtype : types) {
    const auto layout = reference_of(padded);
    const auto mine = [](std::int64_t i) { return (rank + 1) * (1 + static_cast<double>(i % 3)); };
    const DBuffer in(mesh, {P}, layout, dtype);
    fill(in, mine);
    const DBuffer fresh = in.reduce_scatter(0);
    EXPECT_EQ(fresh.placements(), Placements{S});
    expect_values(fresh, [&](std::int64_t i) { return sum * (1 + static_cast<double>(i % 3)); });
    expect_values(in, mine);
    const DBuffer view = in.view({S});
    in.reduce_scatter(0, &view);
    expect_values(view, [&](std::int64_t i) { return sum * (1 + static_cast<double>(i % 3)); });
    expect_values(view.allgather(0), [&](std::int64_t i) { return sum * (1 + static_cast<double>(i % 3)); });
    if (!is_floating(dtype))
      continue;
    const DBuffer average(mesh, {A}, layout, dtype);
    fill(average, [&](std::int64_t i) { return 2 * mine(i); });
    expect_values(average.reduce_scatter(0),
                  [](std::int64_t i) { return (ranks + 1) * (1 + static_cast<double>(i % 3)); });
  }
}

TEST(Axis, WrongAxisOrPlacement) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(three);
  const DBuffer own(mesh, {S}, layout, DType::f64), whole(mesh, {R}, layout, DType::f64),
      sum(mesh, {P}, layout, DType::f64);
  for (const int axis : {-1, 1}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { own.allgather(axis); }, {"allgather", "axis", std::to_string(axis)});
    expect_error(Status::INVALID_ARGUMENT, [&] { sum.allreduce(axis); }, {"allreduce", std::to_string(axis)});
    expect_error(Status::INVALID_ARGUMENT, [&] { sum.reduce_scatter(axis); }, {"reduce_scatter"});
  }
  expect_error(Status::INVALID_ARGUMENT, [&] { whole.allgather(0); }, {"allgather", "[Replicate]", "[Shard]"});
  expect_error(Status::INVALID_ARGUMENT, [&] { sum.allgather(0); }, {"allgather", "[Partial(sum)]"});
  expect_error(Status::INVALID_ARGUMENT, [&] { own.allreduce(0); }, {"allreduce", "[Shard]"});
  expect_error(Status::INVALID_ARGUMENT, [&] { whole.reduce_scatter(0); }, {"reduce_scatter", "[Replicate]"});
}

TEST(TwoAxes, GatherTheInnerAxis) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const DBuffer line(mesh, {R, S}, reference_of(three), DType::f32);
    fill(line, small);
    expect_values(line.allgather(1), small);
    expect_error(Status::INVALID_ARGUMENT, [&] { line.allgather(0); }, {"allgather"});
  }
}

TEST(TwoAxes, ReduceTheOuterAxisThenGatherBoth) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    for (const DType dtype : {DType::f64, DType::bf16, DType::i32}) {
      const auto layout = reference_of(padded);
      const DBuffer gradient(mesh, {P, S}, layout, dtype);
      fill(gradient, times(mesh->coordinate(0) + 1));
      const DBuffer shard_sum = gradient.reduce_scatter(0);
      EXPECT_EQ(shard_sum.numel(), gradient.numel() / sizes[0]);
      EXPECT_EQ(shard_sum.range(), range_of(*layout, {S, S}, sizes, rank));
      const double factor = sizes[0] * (sizes[0] + 1) / 2;
      expect_values(shard_sum, times(factor));
      const DBuffer line = shard_sum.allgather(0);
      EXPECT_EQ(line.placements(), (Placements{R, S}));
      expect_values(line, times(factor));
      const DBuffer whole = line.allgather(1);
      expect_values(whole, times(factor));
      if (ranks > 1) // gathering the inner axis first would leave Shard, Replicate
        expect_error(Status::INVALID_ARGUMENT, [&] { shard_sum.allgather(1); }, {"suffix"});
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
    expect_values(line.reduce_scatter(0), times(sizes[0] * (sizes[0] + 1) / 2 * (sizes[1] + 1)));
    const DBuffer both = gradient.allreduce(1);
    EXPECT_EQ(both.placements(), (Placements{P, R}));
    expect_values(both, times((mesh->coordinate(0) + 1) * (sizes[1] + 1)));
    expect_values(both.allreduce(0), times(sizes[0] * (sizes[0] + 1) / 2 * (sizes[1] + 1)));
  }
}

// Out allocated, separate, or containing the input.
TEST(TwoAxes, GatherBothAxesAtOnce) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    for (const DType dtype : {DType::f64, DType::i32, DType::bf16}) {
      const auto layout = reference_of(padded);
      const DBuffer whole(mesh, {R, R}, layout, dtype);
      fill(
          whole, [](std::int64_t) { return 99; }, true);
      const DBuffer own = whole.redistribute({S, S});
      EXPECT_TRUE(own.is_alias_of(whole));
      fill(own, small);
      const DBuffer separate(mesh, {R, R}, layout, dtype);
      fill(
          separate, [](std::int64_t) { return 98; }, true);
      expect_values(own.redistribute({R, R}), small);
      own.redistribute({R, R}, &separate);
      expect_values(separate, small);
      const std::int64_t others =
          element(whole.data(), (own.range().begin + own.numel()) % layout->size(), dtype) == 99;
      EXPECT_EQ(others, ranks > 1); // untouched so far
      own.redistribute({R, R}, &whole);
      expect_values(whole, small);
      const DBuffer view = whole.view({S, S}), copy(mesh, {S, S}, layout, dtype);
      whole.redistribute({S, S}, &copy);
      expect_values(view, small);
      expect_values(copy, small);
    }
  }
}

// Every intermediate of a gather lies inside the result.
TEST(TwoAxes, GatherNeedsNoScratch) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const DBuffer whole(mesh, {R, R}, reference_of(padded), DType::f64), own = whole.view({S, S});
    const memory::Usage before = mesh->arena()->usage(memory::Kind::other);
    own.redistribute({R, R}, &whole);
    EXPECT_EQ(mesh->arena()->usage(memory::Kind::other).peak, before.peak);
    EXPECT_EQ(mesh->arena()->growths(), 1);
  }
}

TEST(ThreeAxes, GatherAll) {
  const auto mesh = ranks == 4 ? mesh_of({2, 1, 2}) : mesh_of({1, ranks, 1});
  const std::vector<int> sizes = ranks == 4 ? std::vector{2, 1, 2} : std::vector{1, ranks, 1};
  const auto layout = reference_of(padded);
  const DBuffer own(mesh, {S, S, S}, layout, DType::f64);
  EXPECT_EQ(own.range(), range_of(*layout, {S, S, S}, sizes, rank));
  fill(own, small);
  expect_values(own.redistribute({R, R, R}), small);
  expect_values(own.redistribute({R, R, S}), small);
}

TEST(Redistribute, SamePlacementsAndRelabels) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  const DBuffer whole(mesh, {R}, layout, DType::f64), own(mesh, {S}, layout, DType::f64);
  fill(whole, small);
  fill(own, small);
  EXPECT_EQ(own.redistribute({S}).data(), own.data());
  const DBuffer copy(mesh, {S}, layout, DType::f64);
  own.redistribute({S}, &copy);
  expect_values(copy, small);
  EXPECT_NO_THROW(own.redistribute({S}, &own));
  expect_values(own, small);
  // Replicas average to themselves.
  const DBuffer relabelled = whole.redistribute({A});
  EXPECT_EQ(relabelled.data(), whole.data());
  expect_values(relabelled.reduce_scatter(0), small);
  const DBuffer separate(mesh, {A}, layout, DType::f64);
  whole.redistribute({A}, &separate);
  EXPECT_FALSE(separate.is_alias_of(whole));
  expect_values(separate.allreduce(0), small);
  for (const auto& [from, to] : {std::pair{whole, P}, {own, P}, {own, A}})
    expect_error(Status::NOT_SUPPORTED, [&, from = from, to = to] { from.redistribute({to}); }, {"no way"});
}

TEST(Redistribute, MixedTransitionsAreRefused) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of(padded);
    const std::pair<Placements, Placements> mixed[] = {{{P, P}, {R, R}}, {{P, P}, {S, S}}, {{P, P}, {R, S}},
                                                       {{R, P}, {A, S}}, {{P, S}, {R, R}}, {{R, S}, {A, R}}};
    for (const auto& [from, to] : mixed)
      expect_error(Status::NOT_SUPPORTED,
                   [&, f = from, t = to] { DBuffer(mesh, f, layout, DType::f64).redistribute(t); },
                   {to_string(from), to_string(to)});
  }
}

// f32 in rank order, rounded once, on segments of odd sizes.
TEST(Bfloat16, SumsAreRoundedOnce) {
  const auto mesh = mesh_of({ranks});
  for (const std::uint64_t seed : {std::uint64_t{5}, fresh_seed("Bfloat16.SumsAreRoundedOnce")}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const auto contribution = [&](int r, std::int64_t i) {
      std::mt19937 random(static_cast<unsigned>(seed) + static_cast<unsigned>(r * 10'000 + i));
      random.discard(3);
      return bf16_value(round_to_bf16(
          std::ldexp(static_cast<double>(random() % 100'000) - 50'000, -static_cast<int>(random() % 12))));
    };
    const auto sum = [&](std::int64_t i) {
      float total = 0;
      for (int r = 0; r < ranks; ++r)
        total += static_cast<float>(contribution(r, i));
      return bf16_value(round_to_bf16(total));
    };
    for (const auto& shapes : {std::vector<Shape>{{3, 3}, {13}}, {{1}}, {{128}, {257}}})
      for (const auto& layout : {std::make_shared<const GlobalLayout>(build_planned(shapes, ranks)),
                                 std::make_shared<const GlobalLayout>(build_planned(shapes, 1))}) {
        const DBuffer gradient(mesh, {P}, layout, DType::bf16);
        fill(gradient, [&](std::int64_t i) { return contribution(rank, i); });
        expect_values(gradient.allreduce(0), sum);
        if (layout->segments() % ranks != 0)
          continue; // cannot be cut into shards
        expect_values(gradient.reduce_scatter(0), sum);
        const DBuffer view = gradient.view({S});
        gradient.reduce_scatter(0, &view);
        expect_values(view, sum);
      }
  }
}

// Design section 3: 16-bit data is summed in f32 and rounded once.
TEST(Bfloat16, AveragesAreRoundedOnce) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of({{4099}});
  const auto contribution = [](int r, std::int64_t i) {
    return bf16_value(round_to_bf16((r + 1) * 0.37 + 0.011 * static_cast<double>(i)));
  };
  const DBuffer gradient(mesh, {A}, layout, DType::bf16);
  fill(gradient, [&](std::int64_t i) { return contribution(rank, i); });
  expect_values(gradient.reduce_scatter(0), [&](std::int64_t i) {
    float total = 0;
    for (int r = 0; r < ranks; ++r)
      total += static_cast<float>(contribution(r, i));
    return bf16_value(round_to_bf16(total / static_cast<float>(ranks)));
  });
}

TEST(Queued, RedistributionsOnTwoStreams) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  const auto gathers = runtime::make_host_queue("gather"), reductions = runtime::make_host_queue("reduce");
  const mesh::Communicators own_communicators = mesh->make_communicators("test");
  std::vector<DBuffer> wholes, sums;
  for (int k = 1; k <= 5; ++k) {
    const DBuffer own(mesh, {S}, layout, DType::f64), gradient(mesh, {P}, layout, DType::f64);
    fill(own, times(k));
    fill(gradient, times(k * (rank + 1)));
    wholes.emplace_back(mesh, Placements{R}, layout, DType::f64);
    sums.emplace_back(mesh, Placements{S}, layout, DType::f64);
    redistribute(own, wholes.back(), *gathers, own_communicators);
    redistribute(gradient, sums.back(), *reductions, own_communicators);
    accumulate(2, own, sums.back(), *reductions);
  }
  synchronize(reductions->record(), "reductions");
  synchronize(gathers->record(), "gathers");
  for (int k = 1; k <= 5; ++k) {
    expect_values(wholes[static_cast<std::size_t>(k - 1)], times(k));
    expect_values(sums[static_cast<std::size_t>(k - 1)], times(k * ranks * (ranks + 1) / 2.0 + 2 * k));
  }
}

TEST(Queued, ZerosAndTensors) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  const auto stream = runtime::make_host_compute_stream();
  for (const DType dtype : types) {
    const DBuffer own(mesh, {S}, layout, dtype);
    fill(own, small);
    clear_tensor(own, 1, *stream);
    const Range cleared = layout->tensor_range(1);
    expect_values(own, [&](std::int64_t i) { return cleared.begin <= i && i < cleared.end ? 0 : small(i); });
    fill(
        own, [](std::int64_t) { return 99; }, true);
    clear_padding(own, *stream);
    expect_values(own, [](std::int64_t) { return 99; });
    fill_zero(own, *stream);
    expect_values(own, [](std::int64_t) { return 0; });
  }
}

// cases.md
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
    EXPECT_EQ(static_cast<float*>(view.data)[i], static_cast<float>(view.first_row * 10 + i));
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

TEST(Cases, FiveTwoAxesOfNineNumbers) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const std::int64_t numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8};
    const std::vector<const void*> tensors{numbers};
    const DBuffer own = DBuffer::distribute_tensors(tensors, {{9}}, DType::i64, mesh, {S, S});
    const DBuffer whole = own.redistribute({R, R});
    EXPECT_EQ(elements(whole.tensor_view(0).data, 9, DType::i64), (std::vector<double>{0, 1, 2, 3, 4, 5, 6, 7, 8}));
  }
}

TEST(Cases, ThirteenAverage) {
  const auto mesh = mesh_of({ranks});
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
    const DBuffer gradient(mesh, {A}, reference_of({{8}}), dtype);
    fill(gradient, [](std::int64_t) { return rank + 1; });
    expect_values(gradient.allreduce(0), [](std::int64_t) { return (ranks + 1) / 2.0; }); // 2.5 on four ranks
  }
}

TEST(Cases, FourteenReduceScatterOfAnAverage) {
  if (ranks != 2)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = mesh_of({ranks});
  const double sent[2][4] = {{2, 4, 6, 8}, {4, 4, 2, 0}}, expected[2][2] = {{3, 4}, {4, 4}};
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
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
    *static_cast<std::int32_t*>(own.data()) = n0 * j + i;
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
  const auto layout = std::make_shared<GlobalLayout>(build_planned({{128}, {2560}}, ranks, {32, 8}));
  const DBuffer own(mesh, {S}, layout, DType::bf16);
  if (ranks == 3) {
    EXPECT_EQ(own.bytes(), 1792);
  }
  EXPECT_EQ(own.bytes() % 16, 0);
  const DBuffer gradient(mesh, {P}, layout, DType::bf16);
  fill(gradient, small);
  gradient.reduce_scatter(0, &own);
  expect_values(own, times(ranks));
  expect_values(own.allgather(0), times(ranks));
}

} // namespace
} // namespace ostraka::buffer::test
