// SPDX-License-Identifier: Apache-2.0
// The planned builder on sets that are too large for exhaustive search, and on known sets.
#include "layout_test.hpp"
#include "support/rounds.hpp"

namespace ostraka::layout::test {
namespace {

struct Set {
  std::vector<Shape> shapes;
  Atoms atoms;
  int segments = 1;
  Alignment alignment;
};

Set draw_set(Random& random) {
  Set set;
  const auto count = static_cast<std::size_t>(random.draw(7, 60));
  const std::int64_t most = random.draw(0, 1) == 0 ? 60 : 3000;
  set.shapes = random.shapes(count, most);
  set.atoms = random.atoms(count);
  set.segments = static_cast<int>(random.draw(0, 3) == 0 ? random.draw(9, 70) : random.draw(1, 8));
  if (random.draw(0, 1) == 0)
    set.alignment = {random.draw(1, 32), random.draw(1, 16)};
  return set;
}

GlobalLayout plan(const Set& set) { return build_planned(set.shapes, set.segments, set.alignment, set.atoms); }

// The same tensors in another order, with their atoms.
Set permuted(const Set& set, Random& random) {
  std::vector<std::size_t> order(set.shapes.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  random.shuffle(order);
  Set result{{}, set.atoms, set.segments, set.alignment};
  for (std::size_t i = 0; i < order.size(); ++i) {
    result.shapes.push_back(set.shapes[order[i]]);
    if (set.atoms.size() > 1)
      result.atoms[i] = set.atoms[order[i]];
  }
  return result;
}

struct Worst {
  double above_bound = 1, permuted = 1;
};

void check_one(const Set& set, Random& random, Worst& worst) {
  SCOPED_TRACE(describe(set.shapes, set.segments, set.atoms, set.alignment));
  const GlobalLayout layout = plan(set);
  expect_legal(layout, set.atoms, set.alignment);
  ASSERT_TRUE(layout.has_equal_segments());
  ASSERT_EQ(layout.segments(), set.segments);
  ASSERT_EQ(layout.segment_size() % set.alignment.segment, 0);
  validate_atoms(layout, set.atoms);
  const std::int64_t bound = equal_segment_bound(set.shapes, set.segments, set.alignment, set.atoms);
  ASSERT_GE(layout.segment_size(), bound);
  ASSERT_EQ(layout.reason() == "the segment meets the lower bound", layout.segment_size() == bound);
  ASSERT_EQ(plan(set), layout); // the same call gives the same layout
  for (int i = 0; i < layout.num_tensors(); ++i)
    if (layout.tensor_range(i).size() == 0) {
      ASSERT_EQ(layout.tensor_range(i).begin, 0);
    }
  const auto ratio = [](std::int64_t a, std::int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
  if (bound == 0)
    return;
  worst.above_bound = std::max(worst.above_bound, ratio(layout.segment_size(), bound));
  const std::int64_t other = plan(permuted(set, random)).segment_size();
  worst.permuted = std::max({worst.permuted, ratio(other, layout.segment_size()), ratio(layout.segment_size(), other)});
}

void check_many(std::uint64_t seed, int rounds) {
  Random random(seed);
  Worst worst;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    check_one(draw_set(random), random, worst);
  }
  std::cout << "segment / bound at most " << worst.above_bound << ", segments of two orders of one set at most x "
            << worst.permuted << "\n";
  EXPECT_LE(worst.permuted, 1.2);
}

TEST(PlannedProperties, LegalFixedSeed) { check_many(60, ostraka::test::rounds(400)); }
TEST(PlannedProperties, LegalFreshSeed) { check_many(fresh_seed(), ostraka::test::rounds(200)); }

// The reference rule is one way to place rows in equal segments: planned is never worse.
void check_against_reference(std::uint64_t seed, int rounds) {
  Random random(seed);
  int better = 0;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    std::vector<Shape> shapes(static_cast<std::size_t>(random.draw(1, 25)));
    const std::int64_t widths[] = {1, 2, 3, 4, 6, 8, 12, random.draw(1, 12)};
    for (Shape& shape : shapes)
      shape = {random.draw(1, 40), widths[random.draw(0, 7)]};
    const int segments = static_cast<int>(random.draw(1, 12));
    SCOPED_TRACE(describe(shapes, segments, {row_atom()}) + ", seed " + std::to_string(seed));
    const std::int64_t reference = build_reference(shapes, segments).segment_size();
    const std::int64_t planned = build_planned(shapes, segments, {}, {row_atom()}).segment_size();
    ASSERT_LE(planned, reference);
    better += planned < reference ? 1 : 0;
  }
  EXPECT_GT(better, rounds / 4);
}

// Heuristics alone found 150 here.
TEST(PlannedProperties, TheReferenceRuleWhereItNeedsLess) {
  const std::vector<Shape> shapes{{24, 6}, {37, 6}, {28, 8}, {4, 2}, {28, 6}, {18, 8}, {36, 6}, {2, 1}};
  const GlobalLayout planned = build_planned(shapes, 8, {}, {row_atom()});
  EXPECT_EQ(build_reference(shapes, 8).segment_size(), 144);
  EXPECT_EQ(planned.segment_size(), 144);
  expect_legal(planned, {row_atom()});
}

TEST(PlannedProperties, NeverLargerThanReferenceFixedSeed) { check_against_reference(14, ostraka::test::rounds(3000)); }
TEST(PlannedProperties, NeverLargerThanReferenceFreshSeed) {
  check_against_reference(fresh_seed(), ostraka::test::rounds(1500));
}

TEST(PlannedCases, Case35) {
  const std::vector<Shape> shapes{{3, 7}, {3, 11}, {3, 13}};
  EXPECT_EQ(build_reference(shapes, 4).size(), 4004);
  const GlobalLayout planned = build_planned(shapes, 4, {}, {row_atom()});
  EXPECT_LE(planned.size(), 104);
  expect_legal(planned, {row_atom()});
  // Beyond 1.03 x 93 = 95, so automatic is ragged, though its largest segment is no smaller.
  EXPECT_EQ(planned.segment_size(), 26);
  const GlobalLayout ragged = build_ragged(shapes, 4, {row_atom()});
  EXPECT_EQ(ragged.segment_size(), 26);
  EXPECT_EQ(ragged.size(), 93);
  EXPECT_EQ(build_automatic(shapes, 4, {}, {row_atom()}), ragged);
}

TEST(PlannedCases, ScientificNetwork) {
  const std::vector<Shape> shapes{{53, 37}, {53}, {101, 53}, {101}, {7, 101}, {7}};
  EXPECT_EQ(build_reference(shapes, 4).size(), 792'244);
  const GlobalLayout planned = build_planned(shapes, 4, {}, {row_atom()});
  EXPECT_EQ(planned.payload(), 8'182);
  EXPECT_LE(planned.size(), 8'300);
  expect_legal(planned, {row_atom()});
}

// Atoms that make each other's segments impossible: only the largest tensor may cross more than one cut.
TEST(PlannedCases, SegmentsMustSuitEveryTensorThatCoversOne) {
  const GlobalLayout one = build_planned({{30, 7}, {1, 5}}, 3, {}, {row_atom()});
  EXPECT_EQ(one.segment_size(), 77); // a multiple of 7, since tensor 0 covers a segment
  const GlobalLayout both = build_planned({{30, 7}, {42, 5}}, 12, {}, {row_atom()});
  EXPECT_EQ(both.segment_size() % 35, 0);
  expect_legal(both, {row_atom()});
}

TEST(PlannedCases, OneTensorOfEveryAtom) {
  const std::vector<Shape> shapes{{1000, 3}};
  for (int segments = 1; segments <= 40; ++segments) {
    const auto rows_each = (1000 + segments - 1) / segments;
    EXPECT_EQ(build_planned(shapes, segments, {}, {row_atom()}).segment_size(), 3 * rows_each);
    EXPECT_EQ(build_planned(shapes, segments).segment_size(), (3000 + segments - 1) / segments);
    EXPECT_EQ(build_planned(shapes, segments, {}, {tensor_atom()}).segment_size(), 3000);
  }
}

TEST(PlannedCases, ManyEqualTensorsFillRanksInTurn) {
  const std::vector<Shape> shapes(64, Shape{5, 5});
  const GlobalLayout layout = build_planned(shapes, 32, {}, {tensor_atom()});
  EXPECT_EQ(layout.segment_size(), 50);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(layout.tensor_range(i).begin, 25 * i);
}

TEST(PlannedCases, MoreRanksThanElements) {
  const GlobalLayout layout = build_planned({{2, 3}, {}, {4}}, 100'000, {.tensor = 16, .segment = 4}, {row_atom()});
  EXPECT_EQ(layout.segments(), 100'000);
  EXPECT_EQ(layout.segment_size(), 8); // aligned tensors start at cuts of 4: the two rows of 3 need one segment
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(layout.tensor_range(i).begin % 16, 0);
  EXPECT_EQ(layout.cuts().runs().size(), 1u);
}

} // namespace
} // namespace ostraka::layout::test
