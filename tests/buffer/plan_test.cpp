// SPDX-License-Identifier: Apache-2.0
// The transitions of spec 2.4, and composed ones.
#include "support/expect_error.hpp"
#include <ostraka/buffer/plan.hpp>
#include <ostraka/layout/builders.hpp>

#include <ctime>

namespace ostraka::buffer::test {
namespace {

using namespace ostraka::layout;
using ostraka::test::expect_error;
using Kind = RedistributeStep::Kind;

const Placement R = replicate(), S = shard(), P = partial(), A = partial(ReduceOp::mean);
const Placement highest = partial(ReduceOp::max), lowest = partial(ReduceOp::min), product = partial(ReduceOp::prod);

struct Step {
  Kind kind;
  int axis;
  Placements placements;
};

void expect_plan(const Placements& from, const Placements& to, const std::vector<Step>& expected) {
  SCOPED_TRACE(to_string(from) + " to " + to_string(to));
  const auto steps = plan_redistribute(from, to);
  ASSERT_EQ(steps.size(), expected.size());
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(static_cast<int>(steps[i].kind), static_cast<int>(expected[i].kind)) << i;
    EXPECT_EQ(steps[i].axis, expected[i].axis) << i;
    EXPECT_EQ(steps[i].placements, expected[i].placements) << i;
  }
}

void expect_no_way(const Placements& from, const Placements& to, std::initializer_list<std::string> parts) {
  SCOPED_TRACE(to_string(from) + " to " + to_string(to));
  expect_error(
      Status::NOT_SUPPORTED, [&] { plan_redistribute(from, to); }, parts);
  expect_error(Status::NOT_SUPPORTED, [&] { plan_redistribute(from, to); },
               {"no way from " + to_string(from) + " to " + to_string(to)});
}

TEST(Plan, OneAxis) {
  for (const Placement& same : {R, S, P, A, highest, lowest, product})
    expect_plan({same}, {same}, {});
  expect_plan({S}, {R}, {{Kind::allgather, 0, {R}}});
  expect_plan({R}, {S}, {{Kind::view, -1, {S}}});
  for (const Placement& waiting : {A, highest, lowest})
    expect_plan({R}, {waiting}, {{Kind::relabel, -1, {waiting}}});
  for (const Placement& waiting : {P, A, highest, lowest, product}) {
    expect_plan({waiting}, {S}, {{Kind::reduce_scatter, 0, {S}}});
    expect_plan({waiting}, {R}, {{Kind::allreduce, 0, {R}}});
    expect_no_way({S}, {waiting}, {"axis 0", "[Shard] to " + to_string(Placements{waiting})});
  }
  expect_no_way({R}, {P}, {"axis 0", "[Replicate] to [Partial(sum)]"});
  expect_no_way({R}, {product}, {"axis 0", "[Replicate] to [Partial(prod)]"});
  expect_no_way({P}, {A}, {"axis 0", "[Partial(sum)] to [Partial(mean)]"});
  expect_no_way({A}, {P}, {"axis 0", "[Partial(mean)] to [Partial(sum)]"});
}

TEST(Plan, SeveralAxes) {
  // Gathers run from the outer axis to the inner one.
  expect_plan({S, S}, {R, R}, {{Kind::allgather, 0, {R, S}}, {Kind::allgather, 1, {R, R}}});
  expect_plan({S, S, S}, {R, R, R},
              {{Kind::allgather, 0, {R, S, S}}, {Kind::allgather, 1, {R, R, S}}, {Kind::allgather, 2, {R, R, R}}});
  expect_plan({P, S, S}, {P, R, R}, {{Kind::allgather, 1, {P, R, S}}, {Kind::allgather, 2, {P, R, R}}});
  // Views of several axes are one.
  expect_plan({R, R}, {S, S}, {{Kind::view, -1, {S, S}}});
  expect_plan({R, R, S}, {R, S, S}, {{Kind::view, -1, {R, S, S}}});
  expect_plan({R, R}, {A, A}, {{Kind::relabel, -1, {A, A}}});
  // One axis of several.
  expect_plan({S, S}, {R, S}, {{Kind::allgather, 0, {R, S}}});
  expect_plan({R, S}, {R, R}, {{Kind::allgather, 1, {R, R}}});
  expect_plan({P, S}, {S, S}, {{Kind::reduce_scatter, 0, {S, S}}});
  expect_plan({P, A}, {P, S}, {{Kind::reduce_scatter, 1, {P, S}}});
  expect_plan({A, S}, {R, S}, {{Kind::allreduce, 0, {R, S}}});
  expect_plan({R, S}, {A, S}, {{Kind::relabel, -1, {A, S}}});
  expect_plan({}, {}, {});
}

TEST(Plan, Mixtures) {
  // Data is cut before it is reduced, and reduced before it is gathered.
  expect_plan({P, P}, {S, S}, {{Kind::reduce_scatter, 1, {P, S}}, {Kind::reduce_scatter, 0, {S, S}}});
  expect_plan({P, P}, {R, S}, {{Kind::reduce_scatter, 1, {P, S}}, {Kind::allreduce, 0, {R, S}}});
  expect_plan({P, A}, {R, R}, {{Kind::allreduce, 0, {R, A}}, {Kind::allreduce, 1, {R, R}}});
  expect_plan({P, R}, {R, S}, {{Kind::view, -1, {P, S}}, {Kind::allreduce, 0, {R, S}}});
  expect_plan({P, S}, {R, R}, {{Kind::allreduce, 0, {R, S}}, {Kind::allgather, 1, {R, R}}});
  expect_plan({P, R}, {S, S}, {{Kind::view, -1, {P, S}}, {Kind::reduce_scatter, 0, {S, S}}});
  // Views with a reduction between them are two steps.
  expect_plan({R, P, R}, {S, S, S},
              {{Kind::view, -1, {R, P, S}}, {Kind::reduce_scatter, 1, {R, S, S}}, {Kind::view, -1, {S, S, S}}});
  expect_plan({R, R, P}, {A, highest, R}, {{Kind::allreduce, 2, {R, R, R}}, {Kind::relabel, -1, {A, highest, R}}});
  expect_plan({R, P, S}, {lowest, R, R},
              {{Kind::allreduce, 1, {R, R, S}}, {Kind::allgather, 2, {R, R, R}}, {Kind::relabel, -1, {lowest, R, R}}});
  expect_no_way({R, S}, {R, A}, {"axis 1", "[Shard] to [Partial(mean)]"});
  expect_no_way({R, A, R}, {R, P, P}, {"axis 1", "[Partial(mean)] to [Partial(sum)]"});
}

TEST(Plan, ReductionsThatDoNotCommute) {
  for (const Placement& op : {highest, lowest, product})
    expect_plan({op, op}, {S, S}, {{Kind::reduce_scatter, 1, {op, S}}, {Kind::reduce_scatter, 0, {S, S}}});
  expect_no_way({P, highest}, {R, R}, {"axes 0 and 1", "sum and max"});
  expect_no_way({lowest, R, highest}, {R, S, S}, {"axes 0 and 2", "min and max"});
  expect_no_way({A, P, product}, {R, R, S}, {"axes 0 and 2", "mean and prod"});
  // One of them alone is the caller's choice of the order.
  expect_plan({P, highest}, {P, S}, {{Kind::reduce_scatter, 1, {P, S}}});
  expect_plan({highest, P, R}, {R, P, S}, {{Kind::view, -1, {highest, P, S}}, {Kind::allreduce, 0, {R, P, S}}});
}

TEST(Plan, WrongPlacements) {
  expect_error(Status::INVALID_ARGUMENT, [] { plan_redistribute(Placements{R, R}, Placements{S}); }, {"[Shard]"});
  expect_error(Status::INVALID_ARGUMENT, [] { plan_redistribute(Placements{S, S}, Placements{S, R}); }, {"suffix"});
  expect_error(Status::INVALID_ARGUMENT, [] { plan_redistribute(Placements{S, R}, Placements{R, R}); }, {"suffix"});
  const Placement unknown{static_cast<Placement::Kind>(7), ReduceOp::sum};
  expect_error(Status::INVALID_ARGUMENT, [&] { plan_redistribute(Placements{unknown}, Placements{R}); }, {"7"});
  expect_error(Status::INVALID_ARGUMENT, [&] { plan_redistribute(Placements{R}, Placements{unknown}); }, {"7"});
}

/// The ranges of a plan's steps on one rank.
void expect_ranges(const GlobalLayout& layout, const Placements& from, const Placements& to,
                   const std::vector<int>& sizes, const std::vector<int>& coordinates,
                   const std::vector<std::pair<Range, Range>>& expected) {
  const auto ranges = step_ranges(plan_redistribute(from, to), from, layout, {sizes, coordinates});
  ASSERT_EQ(ranges.size(), expected.size());
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    EXPECT_EQ(ranges[k].before, expected[k].first) << k;
    EXPECT_EQ(ranges[k].after, expected[k].second) << k;
  }
}

std::vector<std::int64_t> lengths(const Segments& segments) {
  std::vector<std::int64_t> result;
  for (int k = 0; k < segments.count(); ++k)
    result.push_back(segments.range(k).size());
  return result;
}

// arange(9) over axes of 4 and 2: eight segments of 2 elements.
TEST(PlanCases, Case5) {
  const GlobalLayout layout = build_reference({{9}}, 8);
  const std::vector<int> sizes{4, 2};
  // The elements of rank (i, j) are segment 4j + i; gathering the outer axis makes halves, then all: never scrambled.
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 2; ++j) {
      const std::vector<int> coordinates{i, j};
      const std::int64_t own = 2 * (4 * j + i), half = 8 * j;
      expect_ranges(layout, {S, S}, {R, R}, sizes, coordinates,
                    {{{own, own + 2}, {half, half + 8}}, {{half, half + 8}, {0, 16}}});
      EXPECT_EQ(lengths(axis_pieces(layout, Placements{S, S}, {sizes, coordinates}, 0)),
                (std::vector<std::int64_t>{2, 2, 2, 2}));
      EXPECT_EQ(lengths(axis_pieces(layout, Placements{R, S}, {sizes, coordinates}, 1)),
                (std::vector<std::int64_t>{8, 8}));
    }
}

TEST(PlanCases, Case6) {
  Segments cuts;
  for (const int width : {2, 3, 4, 5})
    cuts.append(1, width);
  const GlobalLayout layout(Policy::ragged, {{14}}, {0}, cuts);
  const std::vector<int> sizes{4};
  const Range own[] = {{0, 2}, {2, 5}, {5, 9}, {9, 14}};
  for (int rank = 0; rank < 4; ++rank) {
    const std::vector<int> coordinates{rank};
    expect_ranges(layout, {S}, {R}, sizes, coordinates, {{own[rank], {0, 14}}});
    expect_ranges(layout, {P}, {S}, sizes, coordinates, {{{0, 14}, own[rank]}});
    EXPECT_EQ(axis_pieces(layout, Placements{S}, {sizes, coordinates}, 0), cuts);
  }
}

TEST(PlanCases, Case44) {
  const GlobalLayout layout(Policy::flat, {{6}}, {0}, 6, 1);
  const std::vector<int> sizes{2, 3};
  const std::int64_t segment[2][3] = {{0, 2, 4}, {1, 3, 5}};
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j)
      expect_ranges(layout, {S, S}, {R, R}, sizes, std::vector<int>{i, j},
                    {{{segment[i][j], segment[i][j] + 1}, {2 * j, 2 * j + 2}}, {{2 * j, 2 * j + 2}, {0, 6}}});
  expect_error(Status::INVALID_ARGUMENT,
               [] {
                 plan_redistribute(Placements{S, S}, Placements{S, R});
               },
               {"expected Shard on axis 1"});
}

TEST(AxisPieces, AreOneRunWhereSegmentsAreEqual) {
  const int outer = 500'000'000;
  const GlobalLayout layout = build_flat({{4'000'000, 1000}}, 4 * outer);
  const std::vector<int> sizes{outer, 4}, coordinates{outer - 1, 3};
  EXPECT_EQ(layout.segment_size(), 2);
  const std::clock_t begin = std::clock();
  EXPECT_EQ(axis_pieces(layout, Placements{S, S}, {sizes, coordinates}, 0), Segments::equal(outer, 2));
  EXPECT_LT(std::clock() - begin, CLOCKS_PER_SEC); // a loop over so many ranks takes longer
  EXPECT_EQ(axis_pieces(layout, Placements{R, S}, {sizes, coordinates}, 1), Segments::equal(4, 1'000'000'000));
}

TEST(AxisPieces, WrongArguments) {
  const GlobalLayout layout(Policy::flat, {{12}}, {0}, 12, 1);
  const std::vector<int> sizes{2, 3, 2}, coordinates{0, 0, 0};
  const auto pieces = [&](const Placements& placements, int axis) {
    axis_pieces(layout, placements, {sizes, coordinates}, axis);
  };
  EXPECT_NO_THROW(pieces({P, S, S}, 1));
  for (const int axis : {-1, 0, 2, 3})
    expect_error(Status::INVALID_ARGUMENT,
                 [&] {
                   pieces({P, S, S}, axis);
                 },
                 {"outermost Shard axis", "axis " + std::to_string(axis)});
  expect_error(Status::INVALID_ARGUMENT, [&] { pieces({R, R, R}, 0); }, {"[Replicate, Replicate, Replicate]"});
  expect_error(Status::INVALID_ARGUMENT, [&] { pieces({S, S}, 0); }, {"[Shard, Shard]"});
  const std::vector<int> short_coordinates{0, 0};
  expect_error(Status::INVALID_ARGUMENT,
               [&] {
                 axis_pieces(layout, Placements{S, S, S}, {sizes, short_coordinates}, 2);
               },
               {"coordinates"});
}

} // namespace
} // namespace ostraka::buffer::test
