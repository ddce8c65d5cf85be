// SPDX-License-Identifier: Apache-2.0
// The ragged builder against the table of spec 1.5 and against all sets of cuts.
#include "layout_test.hpp"

#include <limits>

namespace ostraka::layout::test {
namespace {

using Counts = std::vector<std::int64_t>;

struct Row {
  std::vector<Shape> shapes;
  int segments;
  Counts cuts;
  std::int64_t largest;
  std::int64_t block = 1;
};

Counts cuts_of(const GlobalLayout& layout) {
  Counts cuts{0};
  for (int k = 0; k < layout.segments(); ++k)
    cuts.push_back(layout.segment_range(k).end);
  return cuts;
}

class RaggedTable : public testing::TestWithParam<Row> {};

TEST_P(RaggedTable, CutsAndLargest) {
  const Row& row = GetParam();
  const Atoms atoms{row.block == 1 ? row_atom() : block_atom(row.block)};
  const GlobalLayout layout = build_ragged(row.shapes, row.segments, atoms);
  EXPECT_EQ(layout.policy(), Policy::ragged);
  EXPECT_EQ(layout.padding(), 0);
  EXPECT_EQ(layout.segment_size(), row.largest);
  if (!row.cuts.empty()) {
    EXPECT_EQ(cuts_of(layout), row.cuts);
  }
  std::int64_t offset = 0;
  for (int i = 0; i < layout.num_tensors(); ++i) {
    EXPECT_EQ(layout.tensor_range(i).begin, offset);
    offset += naive_numel(row.shapes[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(layout.size(), offset);
  expect_legal(layout, atoms);
}

const std::vector<Shape> llama{{4096, 4096}, {4096}, {11008, 4096}, {4096, 11008}};

INSTANTIATE_TEST_SUITE_P(Spec, RaggedTable,
                         testing::Values(Row{{{5, 3}, {4, 3}, {7}}, 4, {0, 9, 18, 27, 34}, 9},
                                         Row{{{5, 4}, {2, 6}, {3}}, 2, {0, 16, 35}, 19},
                                         Row{{{7, 3}, {2, 5}, {7}}, 4, {0, 12, 21, 33, 38}, 12},
                                         Row{{{4, 16}, {4}}, 4, {0, 16, 32, 48, 68}, 20},
                                         Row{{{4, 6}, {8, 4}}, 2, {0, 32, 56}, 32, 2},
                                         Row{{{4097, 4096}, {4096, 4097}},
                                             8,
                                             {0, 4'198'400, 8'396'800, 12'595'200, 16'789'506, 20'984'834, 25'180'162,
                                              29'375'490, 33'562'624},
                                             4'198'400},
                                         Row{llama, 64, {}, 1'673'216},
                                         // Widths 2, 3, 4, 5 as whole rows: nothing is reordered.
                                         Row{{{1, 2}, {1, 3}, {1, 4}, {1, 5}}, 4, {0, 5, 9, 14, 14}, 5},
                                         // Trailing ranks own nothing.
                                         Row{{{3}}, 8, {0, 1, 2, 3, 3, 3, 3, 3, 3}, 1},
                                         Row{{{1, 9}}, 3, {0, 9, 9, 9}, 9}, Row{{{}, {0, 4}, {}}, 3, {0, 1, 2, 2}, 1},
                                         Row{{}, 2, {0, 0, 0}, 0}, Row{{{0, 4}, {3, 0}}, 2, {0, 0, 0}, 0}));

// The least largest segment over all sets of legal cuts, by the table best[k][c]: k segments that end at legal cut c.
std::int64_t brute_force(const std::vector<Shape>& shapes, int segments, const Atoms& atoms) {
  Counts legal{0};
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::int64_t count = naive_numel(shapes[i]), atom = naive_atom(atoms, i, shapes[i]);
    for (std::int64_t e = 1; e <= count; ++e)
      if (e % atom == 0 || e == count)
        legal.push_back(offset + e);
    offset += count;
  }
  Counts best = legal; // one segment
  for (int k = 1; k < segments; ++k)
    for (std::size_t c = legal.size(); c-- > 0;)
      for (std::size_t before = 0; before <= c; ++before)
        best[c] = std::min(best[c], std::max(best[before], legal[c] - legal[before]));
  return best.back();
}

void check_optimal(std::uint64_t seed) {
  Random random(seed);
  for (int round = 0; round < 2000 && !testing::Test::HasFailure(); ++round) {
    const auto count = static_cast<std::size_t>(random.draw(0, 6));
    const std::vector<Shape> shapes = random.shapes(count, 20);
    const int segments = static_cast<int>(random.draw(1, 7));
    const Atoms atoms = random.atoms(count);
    SCOPED_TRACE(describe(shapes, segments, atoms) + ", seed " + std::to_string(seed));
    const GlobalLayout layout = build_ragged(shapes, segments, atoms);
    ASSERT_EQ(layout.segments(), segments);
    ASSERT_EQ(layout.padding(), 0);
    ASSERT_EQ(layout.segment_size(), brute_force(shapes, segments, atoms));
    expect_legal(layout, atoms);
    for (std::size_t k = 1; k < static_cast<std::size_t>(segments); ++k) // empty ones stand at the end
      if (layout.segment_range(static_cast<int>(k) - 1).size() == 0) {
        ASSERT_EQ(layout.segment_range(static_cast<int>(k)).size(), 0);
      }
    validate_atoms(layout, atoms);
  }
}

TEST(RaggedProperties, OptimalFixedSeed) { check_optimal(15); }
TEST(RaggedProperties, OptimalFreshSeed) { check_optimal(fresh_seed()); }

TEST(Ragged, MemoryGrowsWithTensorsOnly) {
  Random random(100);
  std::vector<Shape> shapes;
  for (int i = 0; i < 40; ++i)
    shapes.push_back({random.draw(1, 1'000'000), random.draw(1, 300)});
  for (const Atoms& atoms : {Atoms{}, Atoms{row_atom()}, Atoms{last_dims_atom(1)}, Atoms{block_atom(16)}}) {
    const GlobalLayout layout = build_ragged(shapes, 100'000, atoms);
    EXPECT_EQ(layout.segments(), 100'000);
    EXPECT_LE(layout.cuts().runs().size(), 2 * shapes.size() + 2);
    expect_legal(layout, atoms);
  }
  // Many more ranks than elements.
  const GlobalLayout wide = build_ragged({{5, 4}, {3}}, 2'000'000'000, {row_atom()});
  EXPECT_EQ(wide.segment_size(), 4);
  EXPECT_EQ(wide.segments(), 2'000'000'000);
  EXPECT_LE(wide.cuts().runs().size(), 6u);
  EXPECT_EQ(wide.segment_range(1'999'999'999), (Range{23, 23}));
}

// While it searches, the builder meets segment lengths that need more segments than there are 32-bit numbers.
TEST(Ragged, SearchPassesMoreSegmentsThanRanksCanBe) {
  const GlobalLayout layout = build_ragged({{3'000'000'000, 2}}, 2'000'000'000, {row_atom()});
  EXPECT_EQ(layout.segment_size(), 4);
  EXPECT_EQ(layout.owners(0).last, 1'499'999'999);
}

TEST(RaggedErrors, Arguments) {
  expect_invalid([] { build_ragged({{3}}, 0); }, {"build_ragged", "segments >= 1", "found 0"});
  expect_invalid([] { build_ragged({{3}, {2, -1}}, 1); }, {"build_ragged", "tensor 1 of shape (2, -1)", "found -1"});
  const std::int64_t huge = std::int64_t{1} << 62;
  expect_invalid([&] { build_ragged({{huge}, {huge}}, 4); }, {"build_ragged", "tensor 1 of shape", "64 bits"});
}

TEST(RaggedErrors, BuildRefusesAnAlignment) {
  expect_invalid([] { build(Policy::ragged, {{3}}, 2, {.tensor = 8, .segment = 1}); }, {"ragged", "no alignment", "8"});
  expect_invalid([] { build(Policy::ragged, {{3}}, 2, {.tensor = 1, .segment = 4}); }, {"ragged", "no alignment", "4"});
  EXPECT_EQ(build(Policy::ragged, {{5, 4}, {2, 6}, {3}}, 2, {}, {row_atom()}),
            build_ragged({{5, 4}, {2, 6}, {3}}, 2, {row_atom()}));
}

} // namespace
} // namespace ostraka::layout::test
