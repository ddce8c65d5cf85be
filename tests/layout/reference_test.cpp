// SPDX-License-Identifier: Apache-2.0
// The reference builder against the tables of spec 1.4.6 and the known answers of spec/cases.md.
#include "layout_test.hpp"

#include <algorithm>

namespace ostraka::layout::test {
namespace {

using Counts = std::vector<std::int64_t>;

struct Row {
  std::vector<Shape> shapes;
  int segments;
  Counts offsets;
  std::int64_t size;
  std::int64_t segment;
  std::int64_t block_rows = 1;
};

class ReferenceTable : public testing::TestWithParam<Row> {};

TEST_P(ReferenceTable, OffsetsAndSizes) {
  const Row& row = GetParam();
  const GlobalLayout layout = build_reference(row.shapes, row.segments, row.block_rows);
  EXPECT_EQ(layout.policy(), Policy::reference);
  EXPECT_EQ(layout.shapes(), row.shapes);
  EXPECT_EQ(offsets_of(layout), row.offsets);
  EXPECT_EQ(layout.size(), row.size);
  EXPECT_EQ(layout.segments(), row.segments);
  EXPECT_EQ(layout.segment_size(), row.segment);
}

const std::vector<Shape> three{{5, 3}, {4, 3}, {7}};
const std::vector<Shape> bias{{16, 8}, {16}};
const std::vector<Shape> llama{{4096, 4096}, {4096}, {11008, 4096}, {4096, 11008}};
const std::vector<Shape> experts{{128, 2688, 1856}, {128, 1856, 2688}, {2688}};

INSTANTIATE_TEST_SUITE_P(
    Spec, ReferenceTable,
    testing::Values(
        Row{three, 4, {0, 15, 27}, 36, 9}, Row{three, 2, {0, 15, 27}, 36, 18}, Row{three, 1, {0, 15, 27}, 36, 36},
        Row{{{5, 4}, {2, 6}, {3}}, 2, {0, 24, 20}, 48, 24}, Row{{{4, 4}, {1, 6}}, 2, {0, 18}, 24, 12},
        Row{{{2, 6}, {4, 4}, {4, 4}, {1, 2}, {1, 6}}, 5, {0, 12, 32, 28, 48}, 60, 12},
        Row{{{7, 3}, {2, 5}, {7}}, 4, {0, 30, 21}, 60, 15}, Row{bias, 2, {0, 128}, 144, 72},
        Row{bias, 4, {0, 128}, 160, 40}, Row{{{4, 16}, {4}}, 4, {0, 64}, 128, 32},
        Row{{{4, 4}, {2, 2}, {2, 6}}, 2, {0, 16, 24}, 48, 24}, Row{{{5, 4}}, 3, {0}, 24, 8},
        Row{{{6, 3}, {4, 2}, {2, 2}}, 3, {0, 18, 26}, 36, 12}, Row{{{6, 3}}, 2, {0}, 18, 9},
        Row{{{4, 4}, {2, 4}}, 2, {0, 16}, 24, 12}, Row{{{8, 4}}, 8, {0}, 32, 4},
        Row{{{4, 6}, {8, 4}}, 2, {0, 24}, 96, 48, 2}, Row{{{128, 64}, {32, 128}}, 2, {0, 8192}, 16384, 8192, 32},
        // Blocks of b rows are rows of a shape with b times fewer and longer rows.
        Row{{{2, 12}, {4, 8}}, 2, {0, 24}, 96, 48}, Row{{{4, 2048}, {1, 4096}}, 2, {0, 8192}, 16384, 8192},
        Row{{{3}}, 8, {0}, 8, 1}, Row{{{4}}, 4, {0}, 4, 1}, Row{{{0, 4}}, 4, {0}, 0, 0}, Row{{}, 2, {}, 0, 0},
        Row{{{1, 4096}}, 8, {0}, 32'768, 4096}, Row{{{1, 4096}}, 64, {0}, 262'144, 4096},
        Row{{{4097, 4096}, {4096, 4097}}, 8, {0, 16'781'312}, 134'250'496, 16'781'312},
        Row{llama, 64, {0, 16'777'216, 16'908'288, 61'997'056}, 112'721'920, 1'761'280},
        Row{experts, 8, {0, 638'582'784, 1'277'165'568}, 1'317'076'992, 164'634'624}));

// A tensor may be a conjugate only once, must have an incomplete chunk, and must fit.
INSTANTIATE_TEST_SUITE_P(
    Conjugates, ReferenceTable,
    testing::Values(
        // Chunk 12: rest 8 of tensor 0 takes head 4 of tensor 2; tensor 1 has no head, tensor 3 a head of 8.
        Row{{{5, 4}, {2, 6}, {4, 4}, {5, 4}}, 1, {0, 36, 20, 48}, 72, 72},
        // Rest 6 takes the first head of at most 6, and exactly 6 fits.
        Row{{{3, 6}, {5, 4}, {3, 6}, {4, 4}}, 1, {0, 36, 18, 56}, 72, 72}));

TEST(Reference, RowsOnRanksOfThreeTensors) {
  const GlobalLayout layout = build_reference(three, 4);
  EXPECT_EQ(rows_on_rank(layout, 0), (Counts{3, 0, 0}));
  EXPECT_EQ(rows_on_rank(layout, 1), (Counts{2, 1, 0}));
  EXPECT_EQ(rows_on_rank(layout, 2), (Counts{0, 3, 0}));
  EXPECT_EQ(rows_on_rank(layout, 3), (Counts{0, 0, 7}));
  // Tensor 1 stands at elements 6 to 9 of rank 1's buffer; rank 3 ends with two elements of padding.
  EXPECT_EQ(intersect(layout.tensor_range(1), rank_range(layout, 4, 1)), (Range{9 + 6, 9 + 9}));
  EXPECT_EQ(layout.gaps(rank_range(layout, 4, 3)), (std::vector<Range>{{34, 36}}));
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_TRUE(layout.gaps(rank_range(layout, 4, rank)).empty());
}

TEST(Reference, RowsOnRanksOfFiveTensors) {
  const GlobalLayout layout = build_reference({{2, 6}, {4, 4}, {4, 4}, {1, 2}, {1, 6}}, 5);
  EXPECT_EQ(rows_on_rank(layout, 0), (Counts{2, 0, 0, 0, 0}));
  EXPECT_EQ(rows_on_rank(layout, 1), (Counts{0, 3, 0, 0, 0}));
  EXPECT_EQ(rows_on_rank(layout, 2), (Counts{0, 1, 1, 1, 0}));
  EXPECT_EQ(rows_on_rank(layout, 3), (Counts{0, 0, 3, 0, 0}));
  EXPECT_EQ(rows_on_rank(layout, 4), (Counts{0, 0, 0, 0, 1}));
}

TEST(Reference, RowsOnRanksOfAWeightAndItsBias) {
  const GlobalLayout two = build_reference(bias, 2);
  EXPECT_EQ(rows_on_rank(two, 0), (Counts{9, 0}));
  EXPECT_EQ(rows_on_rank(two, 1), (Counts{7, 16}));
  const GlobalLayout four = build_reference(bias, 4);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(rows_on_rank(four, rank), (Counts{5, 0}));
  EXPECT_EQ(rows_on_rank(four, 3), (Counts{1, 16}));
  const GlobalLayout idle = build_reference({{4, 16}, {4}}, 4);
  EXPECT_EQ(rows_on_rank(idle, 3), (Counts{0, 0}));
  const GlobalLayout uneven = build_reference({{5, 4}}, 3);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(intersect(uneven.tensor_range(0), rank_range(uneven, 3, rank)).size(), rank < 2 ? 8 : 4);
}

TEST(ReferenceCases, Case1RowsAddUp) {
  const GlobalLayout layout = build_reference({{5, 10}}, 4);
  std::int64_t sum = 0;
  for (int rank = 0; rank < 4; ++rank)
    sum += rows_on_rank(layout, rank)[0];
  EXPECT_EQ(sum, 5);
  EXPECT_EQ(layout.shape(0), (Shape{5, 10}));
  EXPECT_EQ(layout.tensor_range(0).size(), 50);
}

TEST(ReferenceCases, Case2GlobalShapeIsMetadata) {
  const GlobalLayout layout = build_reference({{10, 2}}, 4);
  EXPECT_EQ(layout.shape(0), (Shape{10, 2}));
  EXPECT_EQ(rows_on_rank(layout, 0), Counts{3});
  EXPECT_EQ(rows_on_rank(layout, 3), Counts{1});
}

TEST(ReferenceCases, Case7RanksWithoutRowsOwnNothing) {
  for (const Shape& shape : {Shape{3}, Shape{3, 5}}) {
    const GlobalLayout layout = build_reference({shape}, 8);
    for (int rank = 0; rank < 8; ++rank)
      EXPECT_EQ(rows_on_rank(layout, rank), Counts{rank < 3 ? 1 : 0});
  }
}

TEST(ReferenceCases, Case35CoprimeRows) {
  const GlobalLayout layout = build_reference({{3, 7}, {3, 11}, {3, 13}}, 4);
  EXPECT_EQ(layout.size(), 4004);
  EXPECT_EQ(layout.payload(), 93);
}

TEST(ReferenceCases, Case39ThreeThousandMillionElements) {
  const GlobalLayout layout = build_reference({{3'000'000'000}}, 2);
  EXPECT_EQ(layout.size(), 3'000'000'000);
  EXPECT_EQ(rank_range(layout, 2, 0), (Range{0, 1'500'000'000}));
  EXPECT_EQ(rank_range(layout, 2, 1), (Range{1'500'000'000, 3'000'000'000}));
  const GlobalLayout pair = build_reference({{3'000'000'000}, {1'000'000, 3000}}, 2);
  EXPECT_EQ(offsets_of(pair), (Counts{0, 3'000'000'000}));
  EXPECT_EQ(rank_range(pair, 2, 1), (Range{3'000'000'000, 6'000'000'000}));
}

TEST(ReferenceCases, Case42WholeBlocks) {
  const std::vector<Shape> blocks{{64, 64}};
  const GlobalLayout two = build_reference(blocks, 2, 32);
  EXPECT_EQ(rank_range(two, 2, 0), (Range{0, 32 * 64}));
  EXPECT_EQ(rank_range(two, 2, 1), (Range{32 * 64, 64 * 64}));
  const GlobalLayout three_ranks = build_reference(blocks, 3, 32);
  for (int rank = 0; rank < 3; ++rank)
    EXPECT_EQ(rows_on_rank(three_ranks, rank), Counts{rank < 2 ? 32 : 0});
  expect_invalid(
      [] {
        build_reference({{64, 64}, {48, 64}}, 2, 32);
      },
      {"build_reference", "tensor 1 of shape (48, 64)", "48 rows", "block of 32"});
  expect_invalid([] { build_reference({{48, 64}}, 2, 0); }, {"at least 1 row", "found 0"});
}

TEST(ReferenceCases, RowCountsOfBlocksAreMultiples) {
  const GlobalLayout layout = build_reference({{4, 6}, {8, 4}}, 2, 2);
  for (int rank = 0; rank < 2; ++rank)
    for (const std::int64_t count : rows_on_rank(layout, rank))
      EXPECT_EQ(count % 2, 0);
}

// Spec 1.4.5: accepted in every order, and the others stand where they stand without the empty ones.
TEST(Reference, EmptyTensorsInEveryOrder) {
  const std::vector<Shape> all{{5, 4}, {2, 6}, {1, 4}, {0, 4}, {0}};
  std::vector<std::size_t> order{0, 1, 2, 3, 4};
  do {
    std::vector<Shape> shapes;
    std::vector<Shape> without;
    for (const std::size_t i : order) {
      shapes.push_back(all[i]);
      if (rows(all[i]) > 0)
        without.push_back(all[i]);
    }
    const GlobalLayout layout = build_reference(shapes, 2);
    Counts offsets;
    for (int i = 0; i < layout.num_tensors(); ++i) {
      EXPECT_TRUE((Range{0, layout.size()}.contains(layout.tensor_range(i))));
      if (layout.tensor_range(i).size() > 0)
        offsets.push_back(layout.tensor_range(i).begin);
    }
    // The rows of the empty tensors, 4 and 1, divide the common multiple of the others: it stays 12.
    EXPECT_EQ(offsets, offsets_of(build_reference(without, 2)));
    EXPECT_EQ(layout.size(), 48);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST(Reference, EmptyTensorsKeepTheOffsetOfTheSpec) {
  EXPECT_EQ(offsets_of(build_reference({{0, 4}, {5, 4}, {2, 6}, {1, 4}}, 2)), (Counts{24, 0, 24, 20}));
  EXPECT_EQ(offsets_of(build_reference({{5, 4}, {2, 6}, {1, 4}, {0, 4}}, 2)), (Counts{0, 24, 20, 24}));
}

TEST(Reference, RowsOfEmptyTensorsCountForTheChunk) {
  const GlobalLayout layout = build_reference({{5}, {0, 4}}, 2);
  EXPECT_EQ(layout.size(), 8);
  EXPECT_EQ(layout.segment_size(), 4);
}

TEST(Reference, ZeroDimensionalTensorsAreOneRowOfOneElement) {
  const std::vector<Shape> scalars{{}, {4, 3}, {}, {2}};
  const std::vector<Shape> vectors{{1}, {4, 3}, {1}, {2}};
  for (int segments = 1; segments <= 5; ++segments) {
    const GlobalLayout layout = build_reference(scalars, segments);
    const GlobalLayout same = build_reference(vectors, segments);
    EXPECT_EQ(offsets_of(layout), offsets_of(same));
    EXPECT_EQ(layout.size(), same.size());
    EXPECT_EQ(layout.tensor_range(0).size(), 1);
    EXPECT_EQ(layout.shape(0), Shape{});
  }
  const GlobalLayout alone = build_reference({{}}, 3);
  EXPECT_EQ(alone.size(), 3);
  EXPECT_EQ(rows_on_rank(alone, 0), Counts{1});
  EXPECT_EQ(rows_on_rank(alone, 1), Counts{0});
}

TEST(ReferenceErrors, NameTheTensor) {
  expect_invalid([] { build_reference({{3}}, 0); }, {"build_reference", "segments >= 1", "found 0"});
  expect_invalid([] { build_reference({{3}}, -2); }, {"found -2"});
  expect_invalid(
      [] {
        build_reference({{3}, {4, 0}}, 2);
      },
      {"build_reference", "tensor 1 of shape (4, 0)", "extents >= 1", "found 0"});
  expect_invalid([] { build_reference({{0, 0}}, 2); }, {"tensor 0 of shape (0, 0)"});
  expect_invalid([] { build_reference({{3}, {3}, {3, -1}}, 2); }, {"tensor 2 of shape (3, -1)", "found -1"});
  expect_invalid([] { build_reference({{3}, {-3}}, 2); }, {"tensor 1 of shape (-3)", "found -3"});
}

TEST(ReferenceErrors, SizesBeyondSixtyFourBits) {
  const std::int64_t big = std::int64_t{1} << 40;
  const std::int64_t huge = std::int64_t{1} << 62;
  // One tensor, one row of an empty tensor, the common multiple of the rows.
  expect_invalid([&] { build_reference({{3}, {big, big}}, 2); }, {"tensor 1 of shape", "64 bits"});
  expect_invalid([&] { build_reference({{3}, {0, big, big}}, 2); }, {"tensor 1 of shape", "64 bits"});
  expect_invalid([&] { build_reference({{1, big - 1}, {1, big}}, 2); }, {"tensor 1 of shape", "64 bits"});
  // The sum of regular tensors, of a conjugate, of fragments.
  expect_invalid([&] { build_reference({{huge}, {huge}}, 2); }, {"tensor 1 of shape", "64 bits"});
  expect_invalid([&] { build_reference({{huge + 1}, {huge + 1}, {1, 4}}, 2); }, {"tensor 0 of shape", "64 bits"});
  expect_invalid([&] { build_reference({{huge - 1}, {huge - 1}, {0, huge}}, 2); }, {"tensor 2 of shape", "64 bits"});
  // The padding alone.
  expect_invalid([&] { build_reference({{1, huge}}, 2); }, {"segments", "64 bits"});
  expect_invalid([&] { build_reference({{huge}, {huge - 1}, {1, 4}}, 3); }, {"64 bits"});
  EXPECT_EQ(build_reference({{huge}}, 1).size(), huge);
}

} // namespace
} // namespace ostraka::layout::test
