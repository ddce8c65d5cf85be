// SPDX-License-Identifier: Apache-2.0
// Every pair of placements of up to three axes, carried out in a model of all ranks: the last step must leave what the
// placements mean.
#include "layout/layout_test.hpp"
#include "plan_model.hpp"
#include "support/rounds.hpp"

#include <array>
#include <cmath>
#include <iostream>
#include <optional>

namespace ostraka::buffer::test {
namespace {

using Kind = RedistributeStep::Kind;

const Placement R = replicate(), S = shard();
const Placement each[] = {R,
                          S,
                          partial(ReduceOp::sum),
                          partial(ReduceOp::mean),
                          partial(ReduceOp::max),
                          partial(ReduceOp::min),
                          partial(ReduceOp::prod)};

/// Whether a step of `kind` may change `from` into `to` on its axis.
bool is_change(Kind kind, const Placement& from, const Placement& to) {
  switch (kind) {
  case Kind::view:
    return from == R && to == S;
  case Kind::relabel: // equal values, reduced, must give themselves
    return from == R && to.is_partial() && reduce(to.op, {7, 7, 7}) == 7;
  case Kind::allgather:
    return from == S && to == R;
  case Kind::reduce_scatter:
    return from.is_partial() && to == S;
  case Kind::allreduce:
    return from.is_partial() && to == R;
  }
  return false;
}

void check_step(const RedistributeStep& step, const Placements& before) {
  ASSERT_TRUE(is_suffix(step.placements)) << to_string(step.placements);
  const bool moves = step.kind != Kind::view && step.kind != Kind::relabel;
  ASSERT_EQ(step.axis >= 0, moves);
  for (std::size_t axis = 0; axis < before.size(); ++axis)
    if (before[axis] != step.placements[axis]) {
      ASSERT_TRUE(is_change(step.kind, before[axis], step.placements[axis])) << to_string(step.placements);
      ASSERT_TRUE(!moves || step.axis == static_cast<int>(axis));
    }
  ASSERT_NE(before, step.placements);
}

/// What the ranks of the step's axis hold, in order, where it is sharded: before a gather or after a scatter.
void check_pieces(const RedistributeStep& step, const World& before, const World& after, int rank) {
  if (step.kind != Kind::allgather && step.kind != Kind::reduce_scatter)
    return;
  const World& cut = step.kind == Kind::allgather ? before : after;
  const std::vector<int> coordinates = before.mesh.coordinates(rank);
  const Segments pieces = axis_pieces(cut.layout, cut.placements, {cut.mesh.sizes, coordinates}, step.axis);
  const std::vector<int> line = cut.mesh.line(rank, static_cast<std::size_t>(step.axis));
  ASSERT_EQ(pieces.count(), static_cast<int>(line.size()));
  const std::int64_t begin = cut.range(line[0]).begin;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const Range piece = pieces.range(static_cast<std::int64_t>(i));
    ASSERT_EQ((Range{begin + piece.begin, begin + piece.end}), cut.range(line[i]));
  }
  ASSERT_TRUE(!cut.layout.has_equal_segments() || pieces.runs().size() == 1);
}

void simulate(const Mesh& mesh, const GlobalLayout& layout, const Placements& from, const Placements& to,
              const RedistributeSteps& steps) {
  World world{mesh, layout, from};
  world.fill();
  const World start = world;
  for (std::size_t k = 0; k < steps.size(); ++k) {
    check_step(steps[k], world.placements);
    World next{mesh, layout, steps[k].placements};
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const std::vector<int> coordinates = mesh.coordinates(rank);
      const auto ranges = step_ranges(steps, from, layout, {mesh.sizes, coordinates});
      ASSERT_EQ(ranges.size(), steps.size());
      ASSERT_EQ(ranges[k].before, world.range(rank));
      ASSERT_EQ(ranges[k].after, next.range(rank));
      next.held.push_back(world.carried_out(steps[k], rank, next.range(rank)));
      ASSERT_EQ(next.held.back().range(), next.range(rank));
      check_pieces(steps[k], world, next, rank);
    }
    world.placements = next.placements;
    world.held = std::move(next.held);
  }
  ASSERT_EQ(world.placements, to);
  for (int rank = 0; rank < mesh.ranks(); ++rank)
    for (std::int64_t e = world.range(rank).begin; e < world.range(rank).end; ++e)
      ASSERT_EQ(world.held[static_cast<std::size_t>(rank)].at(e), start.meaning(to, 0, mesh.coordinates(rank), e));
}

/// The share of the buffer that a rank holds on a mesh of 2, 3, 5, ... ranks an axis, as one part in so many.
int share(const Placements& placements) {
  int parts = 1;
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    parts *= placements[axis].is_shard() ? std::array{2, 3, 5}[axis] : 1;
  return parts;
}

/// For every axis, the least data that any order of the axes lets it reduce (as the largest number of parts).
std::vector<int> least_data(const Placements& from, const Placements& to) {
  std::vector<std::size_t> order(from.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> best(from.size(), 0);
  do {
    Placements current = from;
    std::vector<int> parts(from.size(), 0);
    bool legal = true;
    for (const std::size_t axis : order) {
      parts[axis] = share(current);
      current[axis] = to[axis];
      legal = legal && is_suffix(current);
    }
    for (std::size_t axis = 0; axis < from.size() && legal; ++axis)
      best[axis] = std::max(best[axis], parts[axis]);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

void check_least_data(const Placements& from, const Placements& to, const RedistributeSteps& steps) {
  const std::vector<int> best = least_data(from, to);
  Placements current = from;
  std::size_t moves = 0;
  for (const RedistributeStep& step : steps) {
    if (step.kind == Kind::reduce_scatter || step.kind == Kind::allreduce) {
      ASSERT_EQ(share(current), best[static_cast<std::size_t>(step.axis)]) << "reduction of axis " << step.axis;
    }
    moves += step.axis >= 0 ? 1 : 0;
    current = step.placements;
  }
  std::size_t needed = 0; // one collective per axis whose data moves
  for (std::size_t axis = 0; axis < from.size(); ++axis)
    needed += from[axis] != to[axis] && from[axis] != R ? 1 : 0;
  ASSERT_EQ(moves, needed);
}

/// Why there is no way, as text that the message must hold; null when there is one.
std::optional<std::vector<std::string>> refusal(const Placements& from, const Placements& to) {
  std::vector<std::size_t> reduced;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == to[axis])
      continue;
    const bool scales = to[axis] == partial(ReduceOp::sum) || to[axis] == partial(ReduceOp::prod);
    if (to[axis].is_partial() && (from[axis] != R || scales))
      return std::vector{"axis " + std::to_string(axis) + " ",
                         to_string({&from[axis], 1}) + " to " + to_string({&to[axis], 1})};
    if (from[axis].is_partial())
      reduced.push_back(axis);
  }
  for (const std::size_t axis : reduced) {
    const auto [a, b] = std::pair{from[reduced[0]].op, from[axis].op};
    const bool linear = (a == ReduceOp::sum && b == ReduceOp::mean) || (a == ReduceOp::mean && b == ReduceOp::sum);
    if (a != b && !linear)
      return std::vector{"axes " + std::to_string(reduced[0]) + " and " + std::to_string(axis),
                         name(a) + std::string(" and ") + name(b)};
  }
  return std::nullopt;
}

void check_refusal(const Placements& from, const Placements& to, std::vector<std::string> parts) {
  parts.push_back("no way from " + to_string(from) + " to " + to_string(to));
  try {
    plan_redistribute(from, to);
    FAIL() << "expected NOT_SUPPORTED";
  } catch (const Error& error) {
    ASSERT_EQ(error.status(), Status::NOT_SUPPORTED) << error.what();
    for (const std::string& part : parts)
      ASSERT_NE(std::string(error.what()).find(part), std::string::npos) << part << " in: " << error.what();
  }
}

std::vector<Placements> all_placements(std::size_t axes) {
  std::vector<Placements> all{{}};
  for (std::size_t axis = 0; axis < axes; ++axis) {
    std::vector<Placements> longer;
    for (Placements placements : all)
      for (const Placement& next : each) {
        placements.resize(axis);
        placements.push_back(next);
        longer.push_back(placements);
      }
    all = longer;
  }
  return all;
}

/// Equal segments, as many as ranks or twice as many, and unequal ones of which some are empty.
std::vector<GlobalLayout> layouts(const Mesh& mesh, layout::test::Random& random) {
  Segments ragged;
  for (int segment = 0; segment < mesh.ranks(); ++segment)
    ragged.append(1, random.draw(0, 2));
  const Segments equal = Segments::equal(mesh.ranks() * static_cast<int>(random.draw(1, 2)), 1);
  std::vector<GlobalLayout> result;
  for (const Segments& segments : {equal, ragged})
    result.emplace_back(Policy::ragged, std::vector<Shape>{{segments.size()}}, std::vector<std::int64_t>{0}, segments);
  return result;
}

struct Count {
  int legal = 0, refused = 0;
};

/// All pairs of placements on the meshes, which have the same number of axes.
Count check_pairs(const std::vector<Mesh>& meshes, std::uint64_t seed) {
  layout::test::Random random(seed);
  std::vector<std::vector<GlobalLayout>> worlds;
  for (const Mesh& mesh : meshes)
    worlds.push_back(layouts(mesh, random));
  Count count;
  const auto all = all_placements(meshes[0].sizes.size());
  for (const Placements& from : all)
    for (const Placements& to : all) {
      if (!is_suffix(from) || !is_suffix(to) || testing::Test::HasFailure())
        continue;
      if (const auto why = refusal(from, to)) {
        ++count.refused;
        check_refusal(from, to, *why);
        continue;
      }
      ++count.legal;
      SCOPED_TRACE(to_string(from) + " to " + to_string(to) + ", seed " + std::to_string(seed));
      const auto steps = plan_redistribute(from, to);
      check_least_data(from, to, steps);
      for (std::size_t m = 0; m < meshes.size(); ++m)
        for (const GlobalLayout& layout : worlds[m])
          simulate(meshes[m], layout, from, to, steps);
    }
  std::cout << count.legal << " pairs of placements, " << count.refused << " refused\n";
  return count;
}

/// All meshes of some axes of 1 to 3 ranks.
std::vector<Mesh> all_meshes(std::size_t axes) {
  std::vector<Mesh> meshes;
  for (int number = 0; number < static_cast<int>(std::pow(3, axes)); ++number) {
    std::vector<int> sizes;
    for (int rest = number; sizes.size() < axes; rest /= 3)
      sizes.push_back(1 + rest % 3);
    meshes.push_back({sizes});
  }
  return meshes;
}

TEST(PlanSimulation, OneAxis) {
  const Count count = check_pairs(all_meshes(1), layout::test::fresh_seed());
  EXPECT_EQ(count.legal + count.refused, 7 * 7);
}

TEST(PlanSimulation, TwoAxes) {
  const Count count = check_pairs(all_meshes(2), layout::test::fresh_seed());
  EXPECT_EQ(count.legal + count.refused, 43 * 43);
}

TEST(PlanSimulation, ThreeAxes) {
  const bool full = ostraka::test::rounds(1) > 1;
  const Count count = check_pairs(full ? all_meshes(3) : std::vector<Mesh>{{{2, 3, 2}}, {{3, 1, 2}}, {{1, 2, 3}}},
                                  layout::test::fresh_seed());
  EXPECT_EQ(count.legal + count.refused, 259 * 259);
}

} // namespace
} // namespace ostraka::buffer::test
