// SPDX-License-Identifier: Apache-2.0
// Helpers of the layout tests. Header only, so that each test file also builds alone.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/layout/report.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <random>
#include <string>
#include <vector>

namespace ostraka::layout::test {

/// Expects that `action` throws INVALID_ARGUMENT with all `parts` in its text.
template <class Action>
void expect_invalid(Action action, std::initializer_list<std::string> parts) {
  try {
    action();
    ADD_FAILURE() << "expected an error";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::INVALID_ARGUMENT) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
  }
}

inline std::vector<std::int64_t> offsets_of(const GlobalLayout& layout) {
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < layout.num_tensors(); ++i)
    offsets.push_back(layout.tensor_range(i).begin);
  return offsets;
}

/// The range of rank `rank` on a mesh of one sharded axis of `ranks`.
inline Range rank_range(const GlobalLayout& layout, int ranks, int rank) {
  const std::vector<Placement> placements{shard()};
  const std::vector<int> sizes{ranks};
  const std::vector<int> coordinates{rank};
  return layout.local_range(placements, {sizes, coordinates});
}

/// Whole rows of tensor `index` inside `local`; a test failure when a row is cut.
inline std::int64_t rows_inside(const GlobalLayout& layout, int index, const Range& local) {
  const std::int64_t count = intersect(layout.tensor_range(index), local).size();
  const std::int64_t row = row_numel(layout.shape(index));
  EXPECT_EQ(count % row, 0) << "tensor " << index;
  return count / row;
}

/// Rows of every tensor on `rank` of `layout.segments()` ranks.
inline std::vector<std::int64_t> rows_on_rank(const GlobalLayout& layout, int rank) {
  std::vector<std::int64_t> counts;
  for (int i = 0; i < layout.num_tensors(); ++i)
    counts.push_back(rows_inside(layout, i, rank_range(layout, layout.segments(), rank)));
  return counts;
}

/// The seed of OSTRAKA_TEST_SEED, which repeats a run, or a fresh one; printed.
inline std::uint64_t fresh_seed() {
  const char* given = std::getenv("OSTRAKA_TEST_SEED");
  const std::uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::cout << "seed " << seed << "\n";
  return seed;
}

/// Random shapes, atoms and numbers.
class Random {
public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}

  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(engine_);
  }

  /// Of rank 0 to 3 with at most `most` elements; sometimes empty.
  Shape shape(std::int64_t most) {
    if (draw(0, 19) == 0)
      return draw(0, 1) == 0 ? Shape{0, draw(1, 4)} : Shape{draw(1, 4), 0};
    Shape shape(static_cast<std::size_t>(draw(0, 7) == 0 ? 0 : draw(1, 3)));
    std::int64_t left = most;
    for (std::int64_t& extent : shape) {
      extent = draw(1, left);
      left /= extent;
    }
    std::shuffle(shape.begin(), shape.end(), engine_);
    return shape;
  }

  std::vector<Shape> shapes(std::size_t count, std::int64_t most) {
    std::vector<Shape> result(count);
    for (Shape& each : result)
      each = shape(most);
    return result;
  }

  Atom atom() {
    switch (draw(0, 5)) {
    case 0:
      return element_atom();
    case 1:
      return last_dims_atom(draw(0, 3));
    case 2:
      return block_atom(draw(1, 4));
    case 3:
      return tensor_atom();
    default:
      return row_atom();
    }
  }

  /// None, one for all, or one per tensor.
  Atoms atoms(std::size_t count) {
    const std::int64_t kind = draw(0, 3);
    Atoms atoms(kind == 0 ? 0 : kind == 1 ? 1 : count);
    for (Atom& each : atoms)
      each = atom();
    return atoms;
  }

  template <class Vector>
  void shuffle(Vector& vector) {
    std::shuffle(vector.begin(), vector.end(), engine_);
  }

private:
  std::mt19937_64 engine_;
};

// Second readings of the definitions, which share no code with the library.

inline std::int64_t naive_numel(const Shape& shape) {
  std::int64_t product = 1;
  for (const std::int64_t extent : shape)
    product *= extent;
  return product;
}

inline std::int64_t naive_atom(const Atoms& atoms, std::size_t index, const Shape& shape) {
  const Atom atom = atoms.empty() ? Atom{} : atoms.size() == 1 ? atoms[0] : atoms[index];
  std::int64_t dims = 0; // of the end of the shape that stay together
  std::int64_t factor = 1;
  const auto inner = static_cast<std::int64_t>(shape.size()) - 1;
  if (atom.kind == Atom::Kind::last_dims)
    dims = std::min(atom.count, inner);
  else if (atom.kind == Atom::Kind::row)
    dims = inner;
  else if (atom.kind == Atom::Kind::block) {
    dims = inner;
    factor = std::min(atom.count, shape.empty() ? 1 : shape[0]);
  } else if (atom.kind == Atom::Kind::tensor)
    dims = inner + 1;
  for (std::int64_t d = 0; d < dims; ++d)
    factor *= shape[shape.size() - 1 - static_cast<std::size_t>(d)];
  return std::max<std::int64_t>(factor, 1);
}

inline std::string describe(const std::vector<Shape>& shapes, int segments, const Atoms& atoms,
                            const Alignment& alignment = {}) {
  std::string text;
  for (const Shape& shape : shapes)
    text += to_string(shape);
  text += " on " + std::to_string(segments) + ", atoms";
  for (std::size_t i = 0; i < shapes.size(); ++i)
    text += " " + std::to_string(naive_atom(atoms, i, shapes[i]));
  return text + ", aligned " + std::to_string(alignment.tensor) + " " + std::to_string(alignment.segment);
}

/// No cut splits an atom, tensors are disjoint, inside the buffer and aligned.
inline void expect_legal(const GlobalLayout& layout, const Atoms& atoms, const Alignment& alignment = {}) {
  std::vector<std::int64_t> cuts;
  for (int k = 0; k < layout.segments(); ++k)
    cuts.push_back(layout.segment_range(k).begin);
  std::vector<Range> ranges;
  for (int i = 0; i < layout.num_tensors(); ++i) {
    const Shape& shape = layout.shapes()[static_cast<std::size_t>(i)];
    const Range tensor = layout.tensor_range(i);
    ASSERT_EQ(tensor.size(), naive_numel(shape));
    ASSERT_TRUE(0 <= tensor.begin && tensor.end <= layout.size()) << "tensor " << i;
    ASSERT_EQ(tensor.begin % alignment.tensor, 0) << "tensor " << i;
    if (tensor.size() > 0)
      ranges.push_back(tensor);
    const std::int64_t atom = naive_atom(atoms, static_cast<std::size_t>(i), shape);
    for (auto cut = std::upper_bound(cuts.begin(), cuts.end(), tensor.begin); cut != cuts.end() && *cut < tensor.end;
         ++cut)
      ASSERT_EQ((*cut - tensor.begin) % atom, 0) << "tensor " << i << " at " << tensor.begin << ", cut " << *cut;
  }
  std::sort(ranges.begin(), ranges.end(), [](const Range& a, const Range& b) { return a.begin < b.begin; });
  for (std::size_t r = 1; r < ranges.size(); ++r)
    ASSERT_LE(ranges[r - 1].end, ranges[r].begin);
}

} // namespace ostraka::layout::test
