// SPDX-License-Identifier: Apache-2.0
// Boxes element by element, and the chunks of spec 4.
#include "layout_test.hpp"
#include <ostraka/layout/boxes.hpp>

#include <limits>

namespace ostraka::layout::test {
namespace {

/// Positions in C order of the elements of `box`, in C order of the box.
std::vector<std::int64_t> positions(const Shape& shape, const Box& box) {
  std::vector<std::int64_t> result{0};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::vector<std::int64_t> finer;
    for (const std::int64_t prefix : result)
      for (std::int64_t k = 0; k < box.sizes[d]; ++k)
        finer.push_back(prefix * shape[d] + box.offsets[d] + k);
    result = std::move(finer);
  }
  return result;
}

void expect_covers(const Shape& shape, const Range& elements) {
  SCOPED_TRACE(testing::Message() << to_string(shape) << " [" << elements.begin << ", " << elements.end << ")");
  const std::vector<Box> found = boxes(shape, elements);
  std::int64_t next = elements.begin; // each box continues where the one before ends, element by element
  for (const Box& box : found) {
    ASSERT_EQ(box.offsets.size(), shape.size());
    ASSERT_EQ(box.sizes.size(), shape.size());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      ASSERT_GE(box.offsets[d], 0);
      ASSERT_GE(box.sizes[d], 1);
      ASSERT_LE(box.offsets[d] + box.sizes[d], shape[d]);
    }
    for (const std::int64_t position : positions(shape, box))
      ASSERT_EQ(position, next++);
  }
  ASSERT_EQ(next, elements.end);
  if (elements.size() == 0) {
    ASSERT_TRUE(found.empty());
  }
  const std::size_t most = shape.empty() ? 1 : 2 * (shape.size() - 1) + 1;
  ASSERT_LE(found.size(), most);
}

void check_random(std::uint64_t seed) {
  Random random(seed);
  std::size_t most_boxes = 0;
  for (int round = 0; round < 4000 && !testing::Test::HasFailure(); ++round) {
    Shape shape(static_cast<std::size_t>(random.draw(0, 5)));
    for (std::int64_t& extent : shape)
      extent = random.draw(0, 29) == 0 ? 0 : random.draw(1, 5);
    const std::int64_t count = naive_numel(shape), begin = random.draw(0, count), end = random.draw(begin, count);
    expect_covers(shape, {begin, end});
    most_boxes = std::max(most_boxes, boxes(shape, {begin, end}).size());
  }
  EXPECT_GE(most_boxes, 7u);
}

TEST(Boxes, FixedSeed) { check_random(5); }
TEST(Boxes, FreshSeed) { check_random(fresh_seed()); }

TEST(Boxes, EveryRangeOfSmallShapes) {
  for (const Shape& shape :
       {Shape{}, {1}, {4}, {3, 2}, {1, 3}, {3, 1}, {2, 3, 2}, {1, 1, 4}, {2, 1, 3}, {0, 3}, {3, 0}})
    for (std::int64_t begin = 0; begin <= naive_numel(shape); ++begin)
      for (std::int64_t end = begin; end <= naive_numel(shape); ++end)
        expect_covers(shape, {begin, end});
}

TEST(Boxes, WholeRowsAreOneBox) {
  EXPECT_EQ(boxes(Shape{5, 3}, {3, 12}), (std::vector<Box>{{{1, 0}, {3, 3}}}));
  EXPECT_EQ(boxes(Shape{7}, {2, 5}), (std::vector<Box>{{{2}, {3}}}));
  EXPECT_EQ(boxes(Shape{2, 3, 4}, {0, 24}), (std::vector<Box>{{{0, 0, 0}, {2, 3, 4}}}));
  EXPECT_EQ(boxes(Shape{}, {0, 1}), (std::vector<Box>{{{}, {}}}));
  EXPECT_EQ(boxes(Shape{5, 3}, {2, 13}), (std::vector<Box>{{{0, 2}, {1, 1}}, {{1, 0}, {3, 3}}, {{4, 0}, {1, 1}}}));
}

// As many boxes as promised for every number of dimensions: all but the first and the last element.
TEST(Boxes, MostBoxes) {
  for (std::size_t dims = 1; dims <= 5; ++dims) {
    const Shape shape(dims, 4);
    expect_covers(shape, {1, naive_numel(shape) - 1});
    EXPECT_EQ(boxes(shape, {1, naive_numel(shape) - 1}).size(), 2 * (dims - 1) + 1);
  }
}

TEST(Boxes, LargeTensors) {
  const Shape shape{3'000'000'000, 1'000};
  EXPECT_EQ(boxes(shape, {1'500'000'000'500, 2'000'000'000'001}),
            (std::vector<Box>{{{1'500'000'000, 500}, {1, 500}},
                              {{1'500'000'001, 0}, {499'999'999, 1'000}},
                              {{2'000'000'000, 0}, {1, 1}}}));
}

TEST(Boxes, RangeMustLieInTheTensor) {
  for (const Range& range : {Range{-1, 3}, {0, 16}, {5, 3}, {16, 16}})
    expect_invalid([&] { boxes(Shape{5, 3}, range); }, {"boxes", "[0, 15)", "(5, 3)", std::to_string(range.begin)});
  expect_invalid([] { boxes(Shape{5, -3}, {0, 0}); }, {"found -3"});
  expect_invalid([] { boxes(Shape{}, {0, 2}); }, {"[0, 1)"});
}

struct Chunks {
  std::vector<Shape> shapes;
  int segments;
  int rank;
  std::vector<RowChunk> chunks;
};

// Spec 4, examples.
TEST(RowChunk, TableOfTheSpec) {
  const std::vector<Shape> bias{{16, 8}, {16}}, three{{5, 3}, {4, 3}, {7}}, small{{4, 4}, {2, 2}, {2, 6}};
  const Chunks table[] = {
      {bias, 2, 0, {{0, 9}, {0, 0}}},
      {bias, 2, 1, {{9, 7}, {0, 16}}},
      {three, 4, 0, {{0, 3}, {0, 0}, {0, 0}}},
      {three, 4, 1, {{3, 2}, {0, 1}, {0, 0}}},
      {three, 4, 2, {{5, 0}, {1, 3}, {0, 0}}},
      {three, 4, 3, {{5, 0}, {4, 0}, {0, 7}}},
      {small, 2, 0, {{0, 4}, {0, 2}, {0, 0}}},
      {small, 2, 1, {{4, 0}, {2, 0}, {0, 2}}},
      {{{5, 4}, {2, 6}, {3}}, 2, 1, {{5, 0}, {0, 2}, {3, 0}}},
      {{{6, 3}, {4, 2}, {2, 2}}, 3, 1, {{4, 2}, {0, 3}, {0, 0}}},
  };
  for (const Chunks& row : table) {
    const GlobalLayout layout = build_reference(row.shapes, row.segments);
    for (int i = 0; i < layout.num_tensors(); ++i) {
      const Range owned = owned_elements(layout.tensor_range(i), layout.segment_range(row.rank));
      EXPECT_EQ(row_chunk(layout.shape(i), owned), row.chunks[static_cast<std::size_t>(i)])
          << describe(row.shapes, row.segments, {}) << ", rank " << row.rank << ", tensor " << i;
    }
  }
}

TEST(RowChunk, OnlyWholeRows) {
  EXPECT_EQ(row_chunk(Shape{}, {0, 1}), (RowChunk{0, 1}));
  EXPECT_EQ(row_chunk(Shape{0, 4}, {0, 0}), (RowChunk{0, 0}));
  EXPECT_EQ(row_chunk(Shape{4, 0}, {0, 0}), (RowChunk{0, 0}));
  expect_invalid([] { row_chunk(Shape{5, 3}, {3, 7}); }, {"row_chunk", "[3, 7)", "(5, 3)", "rows of 3", "boxes()"});
  expect_invalid([] { row_chunk(Shape{5, 3}, {4, 6}); }, {"[4, 6)"});
}

// Chunks of all ranks in segment order make up every tensor; an empty one begins where the ones before end.
TEST(OwnedElements, TileEveryTensorInOrder) {
  Random random(44);
  for (int round = 0; round < 1000 && !testing::Test::HasFailure(); ++round) {
    const auto count = static_cast<std::size_t>(random.draw(0, 6));
    const std::vector<Shape> shapes = random.shapes(count, 20);
    const int segments = static_cast<int>(random.draw(1, 6));
    const Atoms atoms = random.atoms(count);
    SCOPED_TRACE(describe(shapes, segments, atoms));
    for (const GlobalLayout& layout : {build_planned(shapes, segments, {random.draw(1, 4), random.draw(1, 4)}, atoms),
                                       build_ragged(shapes, segments, atoms)})
      for (int i = 0; i < layout.num_tensors(); ++i) {
        std::int64_t held = 0;
        for (int k = 0; k < segments; ++k) {
          const Range owned = owned_elements(layout.tensor_range(i), layout.segment_range(k));
          ASSERT_EQ(owned.begin, held);
          ASSERT_GE(owned.size(), 0);
          ASSERT_EQ(owned.size(), intersect(layout.tensor_range(i), layout.segment_range(k)).size());
          held = owned.end;
        }
        ASSERT_EQ(held, naive_numel(shapes[static_cast<std::size_t>(i)]));
      }
  }
}

} // namespace
} // namespace ostraka::layout::test
