// SPDX-License-Identifier: Apache-2.0
#include "layout_test.hpp"

#include <limits>
#include <set>

namespace ostraka::layout::test {
namespace {

const Placements S_S{shard(), shard()};
const Placements R_S{replicate(), shard()};

Range at(const GlobalLayout& layout, const Placements& placements, const std::vector<int>& sizes,
         const std::vector<int>& coordinates) {
  return layout.local_range(placements, {sizes, coordinates});
}

GlobalLayout given(std::vector<Shape> shapes, std::vector<std::int64_t> offsets, int segments, std::int64_t segment) {
  return {Policy::planned, std::move(shapes), std::move(offsets), segments, segment};
}

TEST(GlobalLayout, Accessors) {
  const GlobalLayout layout = given({{5, 3}, {}, {0, 2}}, {2, 18, 7}, 4, 5);
  EXPECT_EQ(layout.policy(), Policy::planned);
  EXPECT_EQ(layout.num_tensors(), 3);
  EXPECT_EQ(layout.shapes(), (std::vector<Shape>{{5, 3}, {}, {0, 2}}));
  EXPECT_EQ(layout.shape(0), (Shape{5, 3}));
  EXPECT_EQ(layout.tensor_range(0), (Range{2, 17}));
  EXPECT_EQ(layout.tensor_range(1), (Range{18, 19}));
  EXPECT_EQ(layout.tensor_range(2), (Range{7, 7}));
  EXPECT_EQ(layout.size(), 20);
  EXPECT_EQ(layout.payload(), 16);
  EXPECT_EQ(layout.padding(), 4);
  EXPECT_EQ(layout.segments(), 4);
  EXPECT_EQ(layout.segment_size(), 5);
}

TEST(GlobalLayout, TensorIndexIsChecked) {
  const GlobalLayout layout = given({{4}, {4}}, {0, 4}, 1, 8);
  for (const int index : {-1, 2}) {
    expect_invalid([&] { layout.shape(index); }, {"[0, 2)", "found " + std::to_string(index)});
    expect_invalid([&] { layout.tensor_range(index); }, {"[0, 2)", "found " + std::to_string(index)});
  }
}

TEST(GlobalLayout, OverlapNamesBothTensors) {
  expect_invalid(
      [] {
        given({{4}, {3}, {2, 2}}, {0, 6, 3}, 1, 9);
      },
      {"tensor 0 of shape (4)", "tensor 2 of shape (2, 2)", "[3, 7)", "disjoint"});
  expect_invalid([] { given({{4}, {4}}, {2, 2}, 1, 9); }, {"tensor 0", "tensor 1"});
  // A tensor inside another one.
  expect_invalid([] { given({{8}, {1}}, {0, 3}, 1, 9); }, {"tensor 0", "tensor 1"});
  EXPECT_NO_THROW(given({{4}, {3}, {2, 2}}, {4, 8, 0}, 1, 11));
}

TEST(GlobalLayout, TensorsStayInsideTheBuffer) {
  expect_invalid([] { given({{2}, {4}}, {0, 5}, 2, 4); }, {"tensor 1 of shape (4)", "[0, 8)", "offset 5"});
  expect_invalid([] { given({{4}}, {-1}, 2, 4); }, {"tensor 0", "offset -1"});
  expect_invalid([] { given({{9}}, {0}, 2, 4); }, {"tensor 0", "9 elements"});
  expect_invalid([] { given({{4}}, {std::numeric_limits<std::int64_t>::max()}, 2, 4); }, {"tensor 0"});
  expect_invalid([] { given({{0}}, {9}, 2, 4); }, {"tensor 0 of shape (0)", "offset 9"});
  EXPECT_NO_THROW(given({{4}}, {4}, 2, 4));
}

TEST(GlobalLayout, EmptyTensorsStandAnywhere) {
  for (const std::int64_t offset : {0, 1, 4, 6, 8})
    EXPECT_NO_THROW(given({{0, 4}, {4}, {3, 0}, {4}}, {offset, 4, offset, 0}, 2, 4)) << offset;
}

TEST(GlobalLayout, ArgumentsAreChecked) {
  expect_invalid([] { given({}, {}, 0, 4); }, {"segments >= 1", "found 0"});
  expect_invalid([] { given({}, {}, 1, -4); }, {"length >= 0", "1 of -4"});
  expect_invalid([] { given({{1}}, {}, 1, 4); }, {"expected 1 offsets", "found 0"});
  expect_invalid([] { given({}, {}, 4, std::int64_t{1} << 61); }, {"64 bits"});
  expect_invalid([] { given({{1}, {3, -2}}, {0, 0}, 1, 4); }, {"tensor 1", "(3, -2)", "found -2"});
  expect_invalid([] { GlobalLayout(static_cast<Policy>(9), {}, {}, 1, 0); }, {"policy", "found 9"});
  EXPECT_NO_THROW(given({}, {}, 1, 0));
}

// Spec 1.2, worked example.
TEST(LocalRange, InnermostAxisIsTheMostSignificantDigit) {
  const GlobalLayout layout = build_reference({{7, 3}, {2, 5}, {7}}, 4);
  const std::vector<int> mesh{2, 2};
  EXPECT_EQ(at(layout, S_S, mesh, {0, 0}), (Range{0, 15}));
  EXPECT_EQ(at(layout, S_S, mesh, {1, 0}), (Range{15, 30}));
  EXPECT_EQ(at(layout, S_S, mesh, {0, 1}), (Range{30, 45}));
  EXPECT_EQ(at(layout, S_S, mesh, {1, 1}), (Range{45, 60}));
  for (const int outer : {0, 1}) {
    EXPECT_EQ(at(layout, R_S, mesh, {outer, 0}), (Range{0, 30}));
    EXPECT_EQ(at(layout, R_S, mesh, {outer, 1}), (Range{30, 60}));
  }
}

// Case 44.
TEST(LocalRange, MeshOfTwoTimesThree) {
  const GlobalLayout layout = build_reference({{6}}, 6);
  std::vector<std::int64_t> owned;
  for (int i = 0; i < 2; ++i)
    for (int j = 0; j < 3; ++j) {
      const Range range = at(layout, S_S, {2, 3}, {i, j});
      EXPECT_EQ(range.size(), 1);
      owned.push_back(range.begin);
    }
  EXPECT_EQ(owned, (std::vector<std::int64_t>{0, 2, 4, 1, 3, 5}));
  // What a gather over axis 0 must give.
  for (int j = 0; j < 3; ++j)
    EXPECT_EQ(at(layout, R_S, {2, 3}, {1, j}), (Range{2 * j, 2 * j + 2}));
}

TEST(LocalRange, ThreeAxesByTheDigitFormula) {
  const GlobalLayout layout = build_reference({{24}}, 24);
  const std::vector<int> mesh{2, 3, 4};
  for (int a = 0; a < 2; ++a)
    for (int b = 0; b < 3; ++b)
      for (int c = 0; c < 4; ++c) {
        const std::int64_t index = c * 6 + b * 2 + a;
        EXPECT_EQ(at(layout, {shard(), shard(), shard()}, mesh, {a, b, c}), (Range{index, index + 1}));
        const std::int64_t pair = c * 3 + b;
        EXPECT_EQ(at(layout, {partial(), shard(), shard()}, mesh, {a, b, c}), (Range{2 * pair, 2 * pair + 2}));
        EXPECT_EQ(at(layout, {replicate(), partial(), shard()}, mesh, {a, b, c}), (Range{6 * c, 6 * c + 6}));
      }
}

TEST(LocalRange, WithoutShardAxesEverythingIsLocal) {
  const GlobalLayout layout = build_reference({{7}}, 7); // 7 is no multiple of any axis
  for (const Placements& placements : {Placements{replicate(), partial()}, {replicate(), replicate()}})
    EXPECT_EQ(at(layout, placements, {2, 3}, {1, 2}), (Range{0, 7}));
  EXPECT_EQ(at(layout, {}, {}, {}), (Range{0, 7}));
}

TEST(LocalRange, MoreSegmentsThanRanksGiveRuns) {
  const GlobalLayout layout = build_reference({{12}}, 6);
  EXPECT_EQ(at(layout, {shard()}, {3}, {1}), (Range{4, 8}));
  EXPECT_EQ(at(layout, {shard()}, {1}, {0}), (Range{0, 12}));
}

TEST(LocalRange, SegmentsMustBeAMultipleOfTheShards) {
  const GlobalLayout layout = build_reference({{12}}, 4);
  expect_invalid([&] { at(layout, {shard()}, {8}, {0}); }, {"built for 4 segments", "8 shards"});
  expect_invalid([&] { at(layout, {shard()}, {3}, {0}); }, {"built for 4 segments", "3 shards"});
  expect_invalid([&] { at(layout, S_S, {2, 4}, {0, 0}); }, {"built for 4 segments", "8 shards", "[Shard, Shard]"});
  EXPECT_NO_THROW(at(layout, R_S, {2, 4}, {0, 0}));
}

TEST(LocalRange, ArgumentsAreChecked) {
  const GlobalLayout layout = build_reference({{12}}, 4);
  expect_invalid([&] { at(layout, {shard()}, {2, 2}, {0, 0}); }, {"expected 2 placements"});
  expect_invalid([&] { at(layout, {shard(), replicate()}, {2, 2}, {0, 0}); }, {"must be a suffix"});
  expect_invalid([&] { at(layout, S_S, {2, 2}, {0}); }, {"expected 2 mesh coordinates", "found 1"});
  expect_invalid([&] { at(layout, S_S, {2, 2}, {0, 2}); }, {"axis 1", "[0, 2)", "found 2"});
  expect_invalid([&] { at(layout, S_S, {2, 2}, {-1, 0}); }, {"axis 0", "found -1"});
  expect_invalid([&] { at(layout, R_S, {0, 2}, {0, 0}); }, {"axis 0", "size >= 1", "found 0"});
  const int wide = std::numeric_limits<int>::max();
  expect_invalid([&] { at(layout, {shard(), shard(), shard()}, {wide, wide, wide}, {0, 0, 0}); }, {"64 bits"});
}

TEST(Gaps, BetweenBeforeAndBehindTensors) {
  const GlobalLayout layout = given({{3}, {4}, {0, 2}, {2}}, {12, 2, 9, 6}, 2, 10);
  using Ranges = std::vector<Range>;
  EXPECT_EQ(layout.gaps({0, 20}), (Ranges{{0, 2}, {8, 12}, {15, 20}}));
  EXPECT_EQ(layout.gaps({0, 10}), (Ranges{{0, 2}, {8, 10}}));
  EXPECT_EQ(layout.gaps({10, 20}), (Ranges{{10, 12}, {15, 20}}));
  EXPECT_EQ(layout.gaps({2, 8}), Ranges{});
  EXPECT_EQ(layout.gaps({3, 13}), (Ranges{{8, 12}}));
  EXPECT_EQ(layout.gaps({9, 11}), (Ranges{{9, 11}}));
  EXPECT_EQ(layout.gaps({16, 20}), (Ranges{{16, 20}}));
  EXPECT_EQ(layout.gaps({9, 9}), Ranges{});
  EXPECT_EQ(given({}, {}, 2, 3).gaps({1, 5}), (Ranges{{1, 5}}));
}

TEST(Gaps, RangeMustLieInTheBuffer) {
  const GlobalLayout layout = build_reference({{7}}, 2);
  expect_invalid([&] { layout.gaps({-1, 3}); }, {"[0, 8)", "[-1, 3)"});
  expect_invalid([&] { layout.gaps({0, 9}); }, {"[0, 9)"});
  expect_invalid([&] { layout.gaps({5, 3}); }, {"[5, 3)"});
}

TEST(LayoutHash, EqualLayoutsAgreeAndOthersDiffer) {
  const GlobalLayout layout = given({{5, 3}, {4}}, {0, 15}, 2, 20);
  EXPECT_EQ(layout.hash(), given({{5, 3}, {4}}, {0, 15}, 2, 20).hash());
  EXPECT_EQ(layout, given({{5, 3}, {4}}, {0, 15}, 2, 20));
  const GlobalLayout others[] = {
      given({{3, 5}, {4}}, {0, 15}, 2, 20), // a shape of equal size
      given({{15}, {4}}, {0, 15}, 2, 20),   given({{5, 3}, {4}}, {0, 16}, 2, 20),
      given({{5, 3}, {4}}, {4, 0}, 2, 20),  given({{5, 3}, {4}}, {0, 15}, 4, 20),
      given({{5, 3}, {4}}, {0, 15}, 2, 21), // another segment
      given({{4}, {5, 3}}, {15, 0}, 2, 20), GlobalLayout(Policy::reference, {{5, 3}, {4}}, {0, 15}, 2, 20),
      given({{5}, {3, 4}}, {0, 15}, 2, 20), given({{5, 3}}, {0}, 2, 20)};
  std::set<std::int64_t> hashes{layout.hash()};
  for (const GlobalLayout& other : others) {
    EXPECT_NE(layout, other);
    EXPECT_GE(other.hash(), 0);
    EXPECT_TRUE(hashes.insert(other.hash()).second) << to_text(report(other));
  }
}

} // namespace
} // namespace ostraka::layout::test
