// SPDX-License-Identifier: Apache-2.0
// The transitions of spec 2.4.
#include "support/expect_error.hpp"
#include <ostraka/buffer/plan.hpp>

namespace ostraka::buffer::test {
namespace {

using namespace ostraka::layout;
using ostraka::test::expect_error;
using Kind = RedistributeStep::Kind;

const Placement R = replicate(), S = shard(), P = partial(), A = partial(ReduceOp::mean);

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

TEST(Plan, OneAxis) {
  for (const Placement& same : {R, S, P, A})
    expect_plan({same}, {same}, {});
  expect_plan({S}, {R}, {{Kind::allgather, 0, {R}}});
  expect_plan({R}, {S}, {{Kind::view, -1, {S}}});
  expect_plan({R}, {A}, {{Kind::relabel, -1, {A}}});
  for (const Placement& waiting : {P, A}) {
    expect_plan({waiting}, {S}, {{Kind::reduce_scatter, 0, {S}}});
    expect_plan({waiting}, {R}, {{Kind::allreduce, 0, {R}}});
  }
  const std::pair<Placement, Placement> impossible[] = {{R, P}, {S, P}, {S, A}, {P, A}, {A, P}};
  for (const auto& [from, to] : impossible)
    expect_error(Status::NOT_SUPPORTED, [&, f = from, t = to] { plan_redistribute(Placements{f}, Placements{t}); },
                 {to_string(Placements{from}), to_string(Placements{to})});
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

/// Whether spec 2.4 allows the step: all changes of one kind, reductions on one axis only.
bool is_legal(const Placements& from, const Placements& to) {
  int gathers = 0, views = 0, relabels = 0, reductions = 0, others = 0;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const Placement& a = from[axis];
    const Placement& b = to[axis];
    if (a == b)
      continue;
    if (a == S && b == R)
      ++gathers;
    else if (a == R && b == S)
      ++views;
    else if (a == R && b == A)
      ++relabels;
    else if ((a == P || a == A) && (b == S || b == R))
      ++reductions;
    else
      ++others;
  }
  const int kinds = (gathers > 0) + (views > 0) + (relabels > 0) + (reductions > 0);
  return others == 0 && kinds <= 1 && reductions <= 1;
}

bool has_shard_suffix(const Placements& placements) {
  bool sharded = false;
  for (const Placement& placement : placements) {
    if (sharded && !placement.is_shard())
      return false;
    sharded = placement.is_shard();
  }
  return true;
}

std::vector<Placements> all_placements(int axes) {
  std::vector<Placements> all{{}};
  for (int axis = 0; axis < axes; ++axis) {
    std::vector<Placements> longer;
    for (const Placements& placements : all)
      for (const Placement& next : {R, S, P, A}) {
        longer.push_back(placements);
        longer.back().push_back(next);
      }
    all = longer;
  }
  return all;
}

TEST(Plan, EveryTransition) {
  int legal = 0, refused = 0;
  for (int axes = 1; axes <= 3; ++axes)
    for (const Placements& from : all_placements(axes))
      for (const Placements& to : all_placements(axes)) {
        if (!has_shard_suffix(from))
          continue;
        SCOPED_TRACE(to_string(from) + " to " + to_string(to));
        if (!has_shard_suffix(to)) {
          expect_error(Status::INVALID_ARGUMENT, [&] { plan_redistribute(from, to); }, {"suffix"});
        } else if (is_legal(from, to)) {
          ++legal;
          const auto steps = plan_redistribute(from, to);
          EXPECT_EQ(steps.empty(), from == to);
          for (const RedistributeStep& step : steps)
            EXPECT_TRUE(has_shard_suffix(step.placements)); // every intermediate is one contiguous range
          if (!steps.empty()) {
            EXPECT_EQ(steps.back().placements, to);
          }
        } else {
          ++refused;
          expect_error(Status::NOT_SUPPORTED, [&] { plan_redistribute(from, to); }, {to_string(from), to_string(to)});
        }
      }
  EXPECT_GT(legal, 100);
  EXPECT_GT(refused, 100);
}

TEST(Plan, WrongPlacements) {
  expect_error(Status::INVALID_ARGUMENT, [] { plan_redistribute(Placements{R, R}, Placements{S}); }, {"[Shard]"});
  expect_error(Status::INVALID_ARGUMENT, [] { plan_redistribute(Placements{S, S}, Placements{S, R}); }, {"suffix"});
}

} // namespace
} // namespace ostraka::buffer::test
