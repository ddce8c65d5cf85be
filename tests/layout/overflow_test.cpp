// SPDX-License-Identifier: Apache-2.0
// Large numbers: exact where they fit into 64 bits, one named error where they do not; and the hash of layouts.
#include "layout_test.hpp"

#include <limits>
#include <set>

namespace ostraka::layout::test {
namespace {

constexpr std::int64_t giga3 = 3'000'000'000;
constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();

TEST(Large, Case39InEveryPolicy) {
  const std::vector<Shape> shapes{{giga3}};
  for (const GlobalLayout& layout : {build_reference(shapes, 2), build_planned(shapes, 2), build_ragged(shapes, 2),
                                     build_flat(shapes, 2), build_automatic(shapes, 2)}) {
    EXPECT_EQ(layout.segment_range(0), (Range{0, giga3 / 2}));
    EXPECT_EQ(layout.segment_range(1), (Range{giga3 / 2, giga3}));
    EXPECT_EQ(layout.padding(), 0);
  }
  EXPECT_EQ(build_tensor_atomic({{giga3}, {giga3}}, 2, std::vector<int>{1, 0}).tensor_range(0),
            (Range{giga3, 2 * giga3}));
}

// Totals over 2^40, rows over 2^31, all policies, against numbers that are known by construction.
TEST(Large, RowsBeyondThirtyTwoBits) {
  const std::int64_t row = (std::int64_t{1} << 32) + 1;
  const std::vector<Shape> shapes{{1000, row}, {600, row}};
  const Atoms rows{row_atom()};
  const GlobalLayout layouts[] = {build_reference(shapes, 16), build_planned(shapes, 16, {}, rows),
                                  build_ragged(shapes, 16, rows)};
  for (const GlobalLayout& layout : layouts) {
    EXPECT_EQ(layout.payload(), 1600 * row);
    EXPECT_GT(layout.payload(), std::int64_t{1} << 40);
    EXPECT_EQ(layout.segment_size(), 100 * row);
    EXPECT_EQ(layout.padding(), 0);
    EXPECT_EQ(layout.tensor_range(1), (Range{1000 * row, 1600 * row}));
    EXPECT_EQ(layout.owners(1).first, 10);
    EXPECT_EQ(layout.owners(1).last, 15);
    EXPECT_EQ(layout.segment_range(15), (Range{1500 * row, 1600 * row}));
    expect_legal(layout, rows);
  }
}

TEST(Large, CoprimeRowsBeyondThirtyTwoBits) {
  const std::int64_t a = (std::int64_t{1} << 33) + 1, b = (std::int64_t{1} << 33) + 3;
  const std::vector<Shape> shapes{{3, a}, {5, b}};
  const Atoms rows{row_atom()};
  for (const int segments : {1, 2, 3, 4, 8}) {
    const GlobalLayout planned = build_planned(shapes, segments, {}, rows);
    expect_legal(planned, rows);
    EXPECT_GE(planned.segment_size(), equal_segment_bound(shapes, segments, {}, rows));
    EXPECT_LE(planned.segment_size(), 5 * b + 3 * a);
    expect_legal(build_ragged(shapes, segments, rows), rows);
  }
  EXPECT_EQ(build_planned(shapes, 8, {}, rows).segment_size() % b, 0); // only b covers a whole segment: 3 rows of 5
  expect_invalid([&] { build_reference(shapes, 2); }, {"tensor 1 of shape", "64 bits"}); // their multiple is 2^66
}

TEST(Large, NearTheEnd) {
  const std::vector<Shape> shapes{{max64 / 2}, {max64 / 2}};
  EXPECT_EQ(build_ragged(shapes, 3).size(), max64 - 1);
  EXPECT_EQ(build_planned(shapes, 2).size(), max64 - 1);
  EXPECT_EQ(build_planned({{max64}}, 1).segment_size(), max64);
  EXPECT_EQ(build_ragged({{max64}}, 2).segment_size(), max64 / 2 + 1);
  EXPECT_EQ(build_ragged({{max64}}, 1, {tensor_atom()}).segment_size(), max64);
  EXPECT_EQ(build_planned({{max64}}, 1, {}, {row_atom()}).segment_size(), max64);
}

TEST(LargeErrors, OneNamedErrorInEveryPolicy) {
  const std::int64_t half = std::int64_t{1} << 62;
  const std::vector<Shape> product{{3}, {std::int64_t{1} << 32, std::int64_t{1} << 31}}, sum{{half}, {half}};
  const std::vector<int> owners{0, 0};
  for (const std::vector<Shape>& shapes : {product, sum}) {
    expect_invalid([&] { build_reference(shapes, 2); }, {"build_reference", "tensor 1 of shape", "64 bits"});
    expect_invalid([&] { build_planned(shapes, 2); }, {"build_planned", "tensor 1 of shape", "64 bits"});
    expect_invalid([&] { build_ragged(shapes, 2); }, {"build_ragged", "tensor 1 of shape", "64 bits"});
    expect_invalid([&] { build_flat(shapes, 2); }, {"build_flat", "tensor 1 of shape", "64 bits"});
    expect_invalid([&] { build_automatic(shapes, 2); }, {"tensor 1 of shape", "64 bits"});
    expect_invalid([&] { build_tensor_atomic(shapes, 2, owners); }, {"build_tensor_atomic", "64 bits"});
    expect_invalid([&] { equal_segment_bound(shapes, 2, {}, {}); }, {"equal_segment_bound", "64 bits"});
  }
  // Only the padding leaves 64 bits.
  expect_invalid([&] { build_planned({{max64}}, 2); }, {"64 bits"});
  expect_invalid([&] { build_planned({{5, half}}, 2, {}, {row_atom()}); }, {"64 bits"});
  expect_invalid([&] { build_planned({{1, half}}, 2, {}, {row_atom()}); }, {"64 bits"});
  expect_invalid(
      [&] {
        build_planned({{1}}, 1, {.tensor = 1, .segment = max64}, {}).size();
        build_planned({{1}}, 2, {.tensor = 1, .segment = max64});
      },
      {"64 bits"});
}

// Errors that a search meets are no errors of the result: these sets have a place although doubling leaves 64 bits.
TEST(Large, SearchMayNotFailWhereAPlaceExists) {
  const std::int64_t third = max64 / 3;
  const GlobalLayout rows = build_planned({{2, third / 2}, {1, third}}, 2, {}, {row_atom()});
  EXPECT_EQ(rows.segment_size(), third);
  const GlobalLayout odd = build_planned({{3, third / 2}, {1, 5}}, 2, {}, {row_atom()});
  expect_legal(odd, {row_atom()});
}

GlobalLayout with(Policy policy, std::vector<Shape> shapes, std::vector<std::int64_t> offsets,
                  std::initializer_list<std::int64_t> lengths) {
  Segments cuts;
  for (const std::int64_t length : lengths)
    cuts.append(1, length);
  return {policy, std::move(shapes), std::move(offsets), std::move(cuts)};
}

TEST(LayoutHash, AnyChangedFieldChangesIt) {
  const auto P = Policy::ragged;
  const GlobalLayout layout = with(P, {{2, 3}, {4}}, {0, 6}, {4, 6, 2});
  std::vector<GlobalLayout> others;
  for (const Policy policy :
       {Policy::reference, Policy::planned, Policy::flat, Policy::tensor_atomic, Policy::automatic})
    others.push_back(with(policy, {{2, 3}, {4}}, {0, 6}, {4, 6, 2}));
  for (const std::vector<Shape>& shapes : {std::vector<Shape>{{3, 2}, {4}},
                                           {{6}, {4}},
                                           {{2, 3}, {2, 2}},
                                           {{2, 3}, {4, 1}},
                                           {{2, 3}, {1, 4}},
                                           {{2, 3, 1}, {4}}})
    others.push_back(with(P, shapes, {0, 6}, {4, 6, 2}));
  others.push_back(with(P, {{2, 3}, {4}}, {0, 7}, {4, 6, 2}));
  others.push_back(with(P, {{2, 3}, {4}}, {4, 0}, {4, 6, 2}));
  for (const auto& lengths : {std::initializer_list<std::int64_t>{4, 2, 6},
                              {6, 4, 2},
                              {2, 6, 4},
                              {4, 6, 2, 0},
                              {0, 4, 6, 2},
                              {4, 0, 6, 2},
                              {4, 6, 3},
                              {10, 2},
                              {12},
                              {4, 4, 4},
                              {6, 6},
                              {5, 5, 2}})
    others.push_back(with(P, {{2, 3}, {4}}, {0, 6}, lengths));
  others.push_back(with(P, {{2, 3}, {4}, {0}}, {0, 6, 0}, {4, 6, 2}));
  others.push_back(with(P, {{2, 3}, {4}, {0}}, {0, 6, 1}, {4, 6, 2}));
  std::set<std::int64_t> hashes{layout.hash()};
  for (const GlobalLayout& other : others) {
    EXPECT_NE(other, layout);
    EXPECT_TRUE(hashes.insert(other.hash()).second) << to_text(report(other)) << " " << other.cuts().runs().size();
  }
  GlobalLayout same = layout;
  same.set_reason("another reason");
  EXPECT_EQ(same, layout);
  EXPECT_EQ(same.hash(), layout.hash());
}

TEST(LayoutHash, RandomLayoutsDiffer) {
  Random random(77);
  std::set<std::int64_t> hashes;
  std::vector<GlobalLayout> seen;
  for (int round = 0; round < 300; ++round) {
    const auto count = static_cast<std::size_t>(random.draw(0, 4));
    const GlobalLayout layout =
        build_planned(random.shapes(count, 12), static_cast<int>(random.draw(1, 4)), {}, random.atoms(count));
    if (std::find(seen.begin(), seen.end(), layout) != seen.end())
      continue;
    seen.push_back(layout);
    ASSERT_TRUE(hashes.insert(layout.hash()).second);
  }
  EXPECT_GT(seen.size(), 100u);
}

} // namespace
} // namespace ostraka::layout::test
