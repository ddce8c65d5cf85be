// SPDX-License-Identifier: Apache-2.0
// Whole tensors on one rank (spec 1.6, 6.1) and the planner of their owners.
#include "layout_test.hpp"

#include <limits>
#include <numeric>

namespace ostraka::layout::test {
namespace {

using Counts = std::vector<std::int64_t>;
using Owners = std::vector<int>;
using AllOwners = std::vector<Owners>;

Counts begins(const GlobalLayout& layout) {
  Counts result;
  for (int k = 0; k < layout.segments(); ++k)
    result.push_back(layout.segment_range(k).begin);
  return result;
}

struct Row {
  std::vector<Shape> shapes;
  int segments;
  Owners owners;
  Counts offsets;
  Counts segment_begins;
  std::int64_t size;
};

class TensorAtomicTable : public testing::TestWithParam<Row> {};

TEST_P(TensorAtomicTable, OffsetsAndSegments) {
  const Row& row = GetParam();
  const GlobalLayout layout = build_tensor_atomic(row.shapes, row.segments, row.owners);
  EXPECT_EQ(layout.policy(), Policy::tensor_atomic);
  EXPECT_EQ(offsets_of(layout), row.offsets);
  EXPECT_EQ(begins(layout), row.segment_begins);
  EXPECT_EQ(layout.size(), row.size);
  EXPECT_EQ(layout.padding(), 0);
  expect_legal(layout, {tensor_atom()});
  validate_atoms(layout, {tensor_atom()});
  for (int i = 0; i < layout.num_tensors(); ++i)
    if (layout.tensor_range(i).size() > 0) {
      EXPECT_EQ(layout.owners(i).first, row.owners[static_cast<std::size_t>(i)]);
      EXPECT_EQ(layout.owners(i).last, row.owners[static_cast<std::size_t>(i)]);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Spec, TensorAtomicTable,
    testing::Values(Row{{{4, 4}, {3}, {2, 6}, {7, 3}}, 5, {1, 3, 0, 3}, {12, 28, 0, 31}, {0, 12, 28, 28, 52}, 52},
                    Row{{{4, 4}, {2, 6}, {1, 2}}, 2, {0, 1, 1}, {0, 16, 28}, {0, 16}, 30},
                    Row{{{5, 3}, {4, 3}, {7}}, 4, {0, 1, 3}, {0, 15, 27}, {0, 15, 27, 27}, 34},
                    Row{{{5, 3}, {4, 3}, {7}}, 4, {0, 1, 1}, {0, 15, 27}, {0, 15, 34, 34}, 34},
                    Row{{}, 2, {}, {}, {0, 0}, 0},
                    // Empty tensors and scalars; nobody on rank 0.
                    Row{{{0, 4}, {}, {3}, {2, 0}}, 3, {2, 1, 1, 1}, {4, 0, 1, 4}, {0, 0, 4}, 4},
                    Row{{{2}, {3}}, 1, {0, 0}, {0, 2}, {0}, 5}));

TEST(TensorAtomicErrors, OneOwnerPerTensor) {
  const std::vector<Shape> two{{4, 4}, {3}};
  for (const Owners& owners : {Owners{}, {0}, {0, 1, 0}})
    expect_invalid(
        [&] { build_tensor_atomic(two, 2, owners); },
        {"build_tensor_atomic", "number of tensor owners", "expected 2", "found " + std::to_string(owners.size())});
  expect_invalid([] { build_tensor_atomic({}, 2, Owners{0}); }, {"number of tensor owners", "expected 0"});
}

TEST(TensorAtomicErrors, OwnersAreRanks) {
  for (const int owner : {-1, 2, std::numeric_limits<int>::max()})
    expect_invalid(
        [&] {
          build_tensor_atomic({{4, 4}, {3}}, 2, Owners{0, owner});
        },
        {"tensor 1 of shape (3)", "from 0 to 1", "found " + std::to_string(owner)});
  expect_invalid([] { build_tensor_atomic({{4}}, 0, Owners{0}); }, {"segments >= 1", "found 0"});
  expect_invalid([] { build(Policy::tensor_atomic, {{4}}, 2); }, {"tensor_atomic", "needs owners"});
}

TEST(TensorAtomicProperties, MatchTheDefinition) {
  Random random(16);
  for (int round = 0; round < 1000 && !testing::Test::HasFailure(); ++round) {
    const std::vector<Shape> shapes = random.shapes(static_cast<std::size_t>(random.draw(0, 9)), 20);
    const int segments = static_cast<int>(random.draw(1, 6));
    Owners owners;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      owners.push_back(static_cast<int>(random.draw(0, segments - 1)));
    const GlobalLayout layout = build_tensor_atomic(shapes, segments, owners);
    std::int64_t end = 0;
    for (int k = 0; k < segments; ++k) {
      ASSERT_EQ(layout.segment_range(k).begin, end);
      for (std::size_t i = 0; i < shapes.size(); ++i)
        if (owners[i] == k) {
          ASSERT_EQ(layout.tensor_range(static_cast<int>(i)), (Range{end, end + naive_numel(shapes[i])}));
          end += naive_numel(shapes[i]);
        }
      ASSERT_EQ(layout.segment_range(k).end, end);
    }
    ASSERT_EQ(layout.size(), end);
  }
}

// The layouts of 6.1 "owner planning" and what each rank holds of each tensor.
Counts held(const GlobalLayout& layout, int tensor) {
  Counts counts;
  for (int k = 0; k < layout.segments(); ++k)
    counts.push_back(intersect(layout.tensor_range(tensor), layout.segment_range(k)).size());
  return counts;
}

TEST(PlanOwners, ExamplesOfTheSpec) {
  EXPECT_EQ(held(build_reference({{8, 4}}, 2), 0), (Counts{16, 16}));
  EXPECT_EQ(held(build_reference({{6, 3}}, 2), 0), (Counts{9, 9}));
  const GlobalLayout pair = build_reference({{4, 3}, {4, 3}}, 2);
  EXPECT_EQ(held(pair, 0), (Counts{12, 0}));
  EXPECT_EQ(held(pair, 1), (Counts{0, 12}));
  const GlobalLayout uneven = build_reference({{5, 4}}, 3);
  EXPECT_EQ(held(uneven, 0), (Counts{8, 8, 4}));
  EXPECT_EQ(uneven.segment_range(2).begin, 16);
  const GlobalLayout deep = build_reference({{2, 3, 4}, {24}}, 2);
  EXPECT_EQ(held(deep, 0), (Counts{24, 0}));
  EXPECT_EQ(held(deep, 1), (Counts{0, 24}));
  const GlobalLayout three = build_reference({{6, 3}, {4, 2}, {2, 2}}, 3);
  EXPECT_EQ(held(three, 0), (Counts{12, 6, 0}));
  EXPECT_EQ(held(three, 1), (Counts{0, 6, 2}));
  EXPECT_EQ(held(three, 2), (Counts{0, 0, 4}));

  const auto plan = [](const GlobalLayout& layout) { return plan_owners(std::vector{layout}, 5); };
  EXPECT_EQ(plan(build_reference({{8, 4}}, 2)), (AllOwners{{0}}));
  EXPECT_EQ(plan(build_reference({{6, 3}}, 2)), (AllOwners{{0}}));
  EXPECT_EQ(plan(pair), (AllOwners{{0, 1}}));
  EXPECT_EQ(plan(uneven), (AllOwners{{0}}));
  EXPECT_EQ(plan(deep), (AllOwners{{0, 1}}));
  EXPECT_EQ(plan(three), (AllOwners{{0, 1, 2}}));
}

GlobalLayout halves(std::vector<Shape> shapes) { // every tensor on both ranks, if it has two elements or more
  std::vector<std::int64_t> offsets;
  std::int64_t end = 0;
  for (const Shape& shape : shapes) {
    offsets.push_back(end);
    end += naive_numel(shape);
  }
  Segments cuts;
  const std::int64_t first = naive_numel(shapes.front()) - 1;
  cuts.append(1, first);
  cuts.append(1, end - first);
  return {Policy::ragged, std::move(shapes), std::move(offsets), std::move(cuts)};
}

// Costs for 5 steps: 8x8 is 64 x 41 = 2624, 4x4 is 16 x 21 = 336, 8x1 is 8 x 6 = 48. Each group has one tensor that
// lies on both ranks; the others lie on rank 1 and are forced there.
TEST(PlanOwners, CostsDecide) {
  const GlobalLayout square = halves({{8, 8}});
  const auto open = [](Shape shape) { return halves({std::move(shape)}); };
  // The load of rank 1 is a forced tensor: 336 against 48 and the like.
  EXPECT_EQ(plan_owners(std::vector{halves({{4, 4}, {8, 1}}), open({4, 4})}, 5), (AllOwners{{0, 1}, {1}}));
  EXPECT_EQ(plan_owners(std::vector{square, open({4, 4}), open({8, 1})}, 5), (AllOwners{{0}, {1}, {1}}));
  // Seven 4x4 (2352) weigh less than one 8x8 (2624), eight (2688) weigh more.
  for (const std::size_t count : {7u, 8u}) {
    std::vector<GlobalLayout> groups{square};
    for (std::size_t i = 0; i < count; ++i)
      groups.push_back(open({4, 4}));
    groups.push_back(open({8, 1}));
    AllOwners expected(count + 2, Owners{1});
    expected[0] = expected[count + 1] = {0};
    if (count == 7)
      expected[count + 1] = {1};
    EXPECT_EQ(plan_owners(groups, 5), expected) << count;
  }
  // Exactly 2624 on both sides but for 8x1: 54 of them are 2592, 55 are 2640.
  for (const std::size_t count : {54u, 55u}) {
    std::vector<GlobalLayout> groups{square};
    for (std::size_t i = 0; i < count; ++i)
      groups.push_back(open({8, 1}));
    groups.push_back(open({1, 2})); // 2 x 6 = 12
    EXPECT_EQ(plan_owners(groups, 5).back(), Owners{count == 54 ? 1 : 0});
  }
  // Without steps the cost is the number of elements: 64 against four times 16.
  const std::vector<GlobalLayout> groups{square, open({4, 4}), open({4, 4}), open({4, 4}), open({4, 4}), open({8, 1})};
  EXPECT_EQ(plan_owners(groups, 0), (AllOwners{{0}, {1}, {1}, {1}, {1}, {0}}));
}

TEST(PlanOwners, TiesGoToTheLowestRankAndTheFirstTensor) {
  const GlobalLayout layout = build_ragged({{4, 4}}, 4, {row_atom()}); // a row on each rank
  EXPECT_EQ(plan_owners(std::vector{layout, layout, layout, layout, layout}, 5), (AllOwners{{0}, {1}, {2}, {3}, {0}}));
  // Rows and columns count alike.
  EXPECT_EQ(
      plan_owners(std::vector{build_ragged({{2, 8}}, 2, {row_atom()}), build_ragged({{8, 2}}, 2, {row_atom()})}, 3),
      (AllOwners{{0}, {1}}));
}

TEST(PlanOwners, OnlyRanksWithAPartAreAsked) {
  // Rank 2 holds nothing of tensor 0, rank 0 nothing of tensor 1; segment 1 of the second layout is empty.
  const GlobalLayout layout(Policy::ragged, {{4}, {4}}, {0, 4}, [] {
    Segments cuts;
    cuts.append(1, 2);
    cuts.append(1, 4);
    cuts.append(1, 2);
    return cuts;
  }());
  EXPECT_EQ(plan_owners(std::vector{layout}, 5), (AllOwners{{0, 1}}));
  Segments with_empty;
  with_empty.append(1, 2);
  with_empty.append(1, 0);
  with_empty.append(1, 2);
  const GlobalLayout gap(Policy::ragged, {{4}}, {0}, with_empty);
  EXPECT_EQ(plan_owners(std::vector{gap, gap, gap}, 5), (AllOwners{{0}, {2}, {0}}));
}

TEST(PlanOwners, ForcedTensorsCountBeforeOthers) {
  // Both whole tensors of the second group lie on rank 0: the open tensor of the first group goes to rank 1.
  const GlobalLayout open = build_ragged({{2, 2}}, 2, {row_atom()});
  const GlobalLayout forced = build_tensor_atomic({{2, 2}, {0, 3}, {}}, 2, Owners{0, 1, 0});
  EXPECT_EQ(plan_owners(std::vector{open, forced}, 5), (AllOwners{{1}, {0, 0, 0}}));
}

TEST(PlanOwners, Errors) {
  expect_invalid(
      [] {
        plan_owners(std::vector{build_reference({{4}}, 2), build_reference({{4}}, 3)}, 5);
      },
      {"plan_owners", "equal numbers of segments", "2 and 3"});
  expect_invalid([] { plan_owners(std::vector{build_reference({{4}}, 2)}, -1); }, {"steps >= 0", "found -1"});
  EXPECT_EQ(plan_owners({}, 5), AllOwners{});
  EXPECT_EQ(plan_owners(std::vector{build_reference({}, 2)}, 5), AllOwners{{}});
}

// A second reading of 1.6: a list of everything, sorted by repeated search.
TEST(PlanOwners, RandomGroups) {
  Random random(61);
  for (int round = 0; round < 500 && !testing::Test::HasFailure(); ++round) {
    const int segments = static_cast<int>(random.draw(1, 5));
    const std::int64_t steps = random.draw(0, 6);
    std::vector<GlobalLayout> groups;
    for (std::int64_t g = random.draw(1, 3); g > 0; --g)
      groups.push_back(build_ragged(random.shapes(static_cast<std::size_t>(random.draw(0, 6)), 40), segments,
                                    {random.draw(0, 1) == 0 ? row_atom() : element_atom()}));
    std::vector<std::int64_t> load(static_cast<std::size_t>(segments), 0);
    AllOwners expected;
    struct Open {
      std::size_t group, tensor;
      std::int64_t cost;
      Counts parts;
    };
    std::vector<Open> open;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      expected.emplace_back(groups[g].shapes().size(), 0);
      for (std::size_t t = 0; t < groups[g].shapes().size(); ++t) {
        const Shape& shape = groups[g].shapes()[t];
        const std::int64_t numel = naive_numel(shape), row_count = shape.empty() ? 1 : shape[0];
        const Counts parts = held(groups[g], static_cast<int>(t));
        if (numel == 0)
          continue;
        const std::int64_t cost = numel * (std::min(row_count, numel / row_count) * steps + 1);
        const auto whole = std::find(parts.begin(), parts.end(), numel);
        if (whole == parts.end()) {
          open.push_back({g, t, cost, parts});
          continue;
        }
        expected[g][t] = static_cast<int>(whole - parts.begin());
        load[static_cast<std::size_t>(whole - parts.begin())] += cost;
      }
    }
    while (!open.empty()) {
      auto next = open.begin();
      for (auto each = open.begin(); each != open.end(); ++each)
        if (each->cost > next->cost)
          next = each;
      std::size_t best = load.size();
      for (std::size_t k = 0; k < load.size(); ++k)
        if (next->parts[k] > 0 && (best == load.size() || load[k] < load[best]))
          best = k;
      expected[next->group][next->tensor] = static_cast<int>(best);
      load[best] += next->cost;
      open.erase(next);
    }
    ASSERT_EQ(plan_owners(groups, steps), expected) << "round " << round;
  }
}

} // namespace
} // namespace ostraka::layout::test
