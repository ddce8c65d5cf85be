// SPDX-License-Identifier: Apache-2.0
// Gathers, views and copies with known answers (spec 6.2), in layouts of every policy.
#include "buffer_test.hpp"

#include <cmath>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> three{{7, 3}, {2, 5}, {7}};
const std::vector<Shape> padded{{5, 4}, {2, 6}, {3}};

void round_trip(const MeshPtr& mesh, const LayoutPtr& layout, DType dtype) {
  SCOPED_TRACE(std::string(name(layout->policy())) + " of " + name(dtype));
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
  spoil(out);
  const DBuffer part = out.view({S});
  fill(part, small);
  part.allgather(0, &out);
  expect_values(out, small);
}

TEST(Allgather, RoundTrip) {
  const auto mesh = mesh_of({ranks});
  for (const std::vector<Shape>& shapes : std::vector<std::vector<Shape>>{three, padded, {{}, {3, 0}, {1}}})
    for (const DType dtype : all_types)
      for (const LayoutPtr& layout : {share(build_planned(shapes, ranks)), share(build_ragged(shapes, ranks))})
        round_trip(mesh, layout, dtype);
  for (const LayoutPtr& layout : every_layout(padded))
    round_trip(mesh, layout, DType::f32);
}

// Every segment of another length, also none.
TEST(Allgather, UnequalSegments) {
  const auto mesh = mesh_of({ranks});
  for (const int step : {1, ranks - 1}) { // ascending, descending
    std::vector<std::int64_t> lengths;
    for (int k = 0; k < ranks; ++k)
      lengths.push_back(3 * (k * step % ranks));
    for (const DType dtype : {DType::f64, DType::f16, DType::u8})
      round_trip(mesh, segments_of(lengths), dtype);
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
    for (const LayoutPtr& layout : every_layout(three)) {
      const DBuffer line(mesh, {R, S}, layout, DType::f32);
      fill(line, small);
      expect_values(line.allgather(1), small);
      expect_error(Status::INVALID_ARGUMENT, [&] { line.allgather(0); }, {"allgather"});
    }
  }
}

// Out allocated, separate, or containing the input.
TEST(TwoAxes, GatherBothAxesAtOnce) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    for (const LayoutPtr& layout : every_layout(padded)) {
      SCOPED_TRACE(name(layout->policy()));
      const DBuffer whole(mesh, {R, R}, layout, DType::bf16);
      spoil(whole);
      const DBuffer own = whole.redistribute({S, S});
      EXPECT_TRUE(own.is_alias_of(whole));
      fill(own, small);
      const DBuffer separate(mesh, {R, R}, layout, DType::bf16);
      spoil(separate);
      expect_values(own.redistribute({R, R}), small);
      own.redistribute({R, R}, &separate);
      expect_values(separate, small);
      if (own.numel() < whole.numel()) { // untouched so far
        const std::int64_t other = own.range().begin > 0 ? 0 : whole.numel() - 1;
        EXPECT_TRUE(std::isnan(element(whole.data(), other, DType::bf16)));
      }
      own.redistribute({R, R}, &whole);
      expect_values(whole, small);
      const DBuffer view = whole.view({S, S}), copy(mesh, {S, S}, layout, DType::bf16);
      whole.redistribute({S, S}, &copy);
      expect_values(view, small);
      expect_values(copy, small);
      // Gathering the inner axis first would leave Shard, Replicate.
      expect_error(Status::INVALID_ARGUMENT, [&] { own.allgather(1); }, {"suffix"});
    }
  }
}

TEST(ThreeAxes, GatherAll) {
  for (const std::vector<int>& sizes : meshes_of(3)) {
    const auto mesh = mesh_of(sizes);
    for (const LayoutPtr& layout : every_layout(padded)) {
      const DBuffer own(mesh, {S, S, S}, layout, DType::f64);
      EXPECT_EQ(own.range(), range_of(*layout, {S, S, S}, sizes, rank));
      fill(own, small);
      expect_values(own.redistribute({R, R, R}), small);
      expect_values(own.redistribute({R, R, S}), small);
    }
  }
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
  // Equal values reduce to themselves.
  for (const Placement& idempotent : {A, Max, Min}) {
    const DBuffer relabelled = whole.redistribute({idempotent});
    EXPECT_EQ(relabelled.data(), whole.data());
    expect_values(relabelled.reduce_scatter(0), small);
    const DBuffer separate(mesh, {idempotent}, layout, DType::f64);
    whole.redistribute({idempotent}, &separate);
    EXPECT_FALSE(separate.is_alias_of(whole));
    expect_values(separate.allreduce(0), small);
  }
}

TEST(Redistribute, RefusedTransitions) {
  const auto mesh = mesh_of({1, ranks});
  const auto layout = reference_of(padded);
  const std::pair<Placements, Placements> impossible[] = {
      {{R, R}, {R, P}},     {{R, R}, {Prod, R}}, {{R, S}, {R, P}},   {{R, S}, {R, A}},    {{R, P}, {R, A}},
      {{Max, R}, {Min, R}}, {{P, S}, {A, S}},    {{P, Max}, {R, R}}, {{Prod, A}, {S, S}}, {{Max, Min}, {R, S}}};
  for (const auto& [from, to] : impossible) {
    const DBuffer buffer(mesh, from, layout, DType::f64), out(mesh, to, layout, DType::f64);
    fill(buffer, small);
    for (const DBuffer* into : {static_cast<const DBuffer*>(nullptr), &out})
      expect_error(Status::NOT_SUPPORTED, [&, to = to] { buffer.redistribute(to, into); },
                   {"no way", to_string(from), to_string(to)});
    expect_values(buffer, small);
    expect_values(out, [](std::int64_t) { return 0; });
  }
}

} // namespace
} // namespace ostraka::buffer::test
