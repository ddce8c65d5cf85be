// SPDX-License-Identifier: Apache-2.0
#include "layout_test.hpp"

namespace ostraka::layout::test {
namespace {

struct Row {
  Shape shape;
  std::int64_t element, last0, last1, last2, last9, row, block1, block3, block99, tensor;
};

TEST(Atom, EveryKindAndRank) {
  const Row rows[] = {
      {{}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
      {{7}, 1, 1, 1, 1, 1, 1, 1, 3, 7, 7}, // a vector's rows are elements
      {{1}, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
      {{5, 4}, 1, 1, 4, 4, 4, 4, 4, 12, 20, 20},
      {{2, 4}, 1, 1, 4, 4, 4, 4, 4, 8, 8, 8}, // a block is at most the tensor
      {{1, 6}, 1, 1, 6, 6, 6, 6, 6, 6, 6, 6},
      {{5, 4, 3}, 1, 1, 3, 12, 12, 12, 12, 36, 60, 60},
      {{3, 1, 1}, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3},
      {{6, 5, 4, 3}, 1, 1, 3, 12, 60, 60, 60, 180, 360, 360},
      {{3'000'000'000, 3, 2}, 1, 1, 2, 6, 6, 6, 6, 18, 594, 18'000'000'000},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(to_string(row.shape));
    EXPECT_EQ(atom_numel(element_atom(), row.shape), row.element);
    EXPECT_EQ(atom_numel(last_dims_atom(0), row.shape), row.last0);
    EXPECT_EQ(atom_numel(last_dims_atom(1), row.shape), row.last1);
    EXPECT_EQ(atom_numel(last_dims_atom(2), row.shape), row.last2);
    EXPECT_EQ(atom_numel(last_dims_atom(9), row.shape), row.last9);
    EXPECT_EQ(atom_numel(row_atom(), row.shape), row.row);
    EXPECT_EQ(atom_numel(block_atom(1), row.shape), row.block1);
    EXPECT_EQ(atom_numel(block_atom(3), row.shape), row.block3);
    EXPECT_EQ(atom_numel(block_atom(99), row.shape), row.block99);
    EXPECT_EQ(atom_numel(tensor_atom(), row.shape), row.tensor);
  }
}

TEST(Atom, AtLeastOneAndAtMostTheTensor) {
  Random random(3);
  for (int round = 0; round < 5000; ++round) {
    const Shape shape = random.shape(60);
    const Atom atom = random.atom();
    const std::int64_t found = atom_numel(atom, shape), elements = naive_numel(shape);
    SCOPED_TRACE(to_string(atom) + " of " + to_string(shape));
    ASSERT_GE(found, 1);
    ASSERT_LE(found, std::max<std::int64_t>(elements, 1));
    if (elements > 0) {
      ASSERT_EQ(found, naive_atom({atom}, 0, shape));
    }
  }
}

TEST(Atom, EmptyTensorsHaveOne) {
  for (const Shape& shape : {Shape{0}, {0, 4}, {4, 0}, {2, 0, 3}, {0, 3, 5}})
    for (const Atom& atom : {element_atom(), last_dims_atom(0), last_dims_atom(1), last_dims_atom(2), row_atom(),
                             block_atom(1), block_atom(32), tensor_atom()})
      EXPECT_EQ(atom_numel(atom, shape), 1) << to_string(atom) << " of " << to_string(shape);
}

// A block that does not divide the rows: cuts at whole blocks from the start, the last one short.
TEST(Atom, LastBlockMayBeShort) {
  const std::vector<Shape> shapes{{48, 64}};
  const GlobalLayout ragged = build_ragged(shapes, 2, {block_atom(32)});
  EXPECT_EQ(ragged.segment_range(0), (Range{0, 32 * 64}));
  EXPECT_EQ(ragged.segment_range(1), (Range{32 * 64, 48 * 64}));
  const GlobalLayout planned = build_planned(shapes, 2, {}, {block_atom(32)});
  EXPECT_EQ(planned.segment_size(), 32 * 64);
  EXPECT_EQ(planned.tensor_range(0).begin, 0);
  // 7 rows in blocks of 3 are 3, 3 and 1: two cuts leave no more than 3.
  EXPECT_EQ(build_ragged({{7, 2}}, 3, {block_atom(3)}).segment_size(), 6);
  EXPECT_EQ(build_ragged({{7, 2}}, 2, {block_atom(3)}).segment_size(), 8);
  // The short block may stand before a cut only if that cut is the tensor's end.
  EXPECT_EQ(build_planned({{7, 2}}, 2, {}, {block_atom(3)}).segment_size(), 8);
}

TEST(Atom, Errors) {
  expect_invalid([] { atom_numel(last_dims_atom(-1), Shape{4}); }, {"last dimensions >= 0", "found -1"});
  expect_invalid([] { atom_numel(block_atom(0), Shape{4}); }, {"at least 1 row", "found 0"});
  expect_invalid([] { atom_numel(block_atom(-3), Shape{4}); }, {"found -3"});
  expect_invalid([] { atom_numel(block_atom(0), Shape{0, 4}); }, {"at least 1 row", "found 0"});
  expect_invalid([] { atom_numel({static_cast<Atom::Kind>(5), 1}, Shape{4}); }, {"kind from 0", "found 5"});
  expect_invalid([] { atom_numel({static_cast<Atom::Kind>(-1), 1}, Shape{4}); }, {"found -1"});
  expect_invalid([] { atom_numel(row_atom(), Shape{4, -2}); }, {"found -2"});
  EXPECT_EQ(atom_numel(block_atom(std::int64_t{1} << 62), Shape{3, 5}), 15);
  EXPECT_EQ(atom_numel(last_dims_atom(std::int64_t{1} << 62), Shape{3, 5}), 5);
}

TEST(Atom, BuildersNameTheTensorOfABadAtom) {
  const std::vector<Shape> shapes{{3}, {4, 2}};
  expect_invalid(
      [&] {
        build_planned(shapes, 2, {}, {row_atom(), block_atom(0)});
      },
      {"build_planned", "tensor 1 of shape (4, 2)", "at least 1 row"});
  expect_invalid([&] { build_ragged(shapes, 2, {last_dims_atom(-2)}); }, {"build_ragged", "tensor 0", "found -2"});
  for (const Atoms& atoms : {Atoms(3, row_atom()), Atoms(4, row_atom())}) {
    expect_invalid([&] { build_planned(shapes, 2, {}, atoms); }, {"build_planned", "no atoms, one or 2", "found"});
    expect_invalid([&] { build_ragged(shapes, 2, atoms); }, {"build_ragged", "no atoms, one or 2"});
    expect_invalid([&] { build_automatic(shapes, 2, {}, atoms); }, {"no atoms, one or 2"});
    expect_invalid([&] { validate_atoms(build_ragged(shapes, 2), atoms); }, {"validate_atoms", "no atoms, one or 2"});
    expect_invalid([&] { equal_segment_bound(shapes, 2, {}, atoms); }, {"equal_segment_bound", "no atoms, one or 2"});
    expect_invalid([&] { build(Policy::reference, shapes, 2, {}, atoms); }, {"no atoms, one or 2"});
  }
}

TEST(Atom, Text) {
  EXPECT_EQ(to_string(element_atom()), "element");
  EXPECT_EQ(to_string(last_dims_atom(2)), "row of the last 2 dimensions");
  EXPECT_EQ(to_string(row_atom()), "dim-0 row");
  EXPECT_EQ(to_string(block_atom(32)), "block of 32 rows");
  EXPECT_EQ(to_string(tensor_atom()), "tensor");
  EXPECT_EQ(to_string(Atom{static_cast<Atom::Kind>(8), 1}), "unknown atom 8");
}

} // namespace
} // namespace ostraka::layout::test
