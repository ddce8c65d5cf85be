// SPDX-License-Identifier: Apache-2.0
// Helpers of the buffer tests: meshes, contents by global element, and the rank order of spec 1.2 written again.
#pragma once

#include "support/elements.hpp"
#include "support/expect_error.hpp"
#include "support/world.hpp"
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/layout/builders.hpp>

#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::buffer::test {

using namespace ostraka::layout;
using namespace ostraka::test;

inline const Placement R = replicate(), S = shard(), P = partial(), A = partial(ReduceOp::mean);

/// New memory holds NaN in these tests.
class FillMemory final : public testing::Environment {
public:
  void SetUp() override { setenv("OSTRAKA_CHECK", "1", 1); }
};
inline testing::Environment* const fill_memory = testing::AddGlobalTestEnvironment(new FillMemory);

inline MeshPtr mesh_of(std::vector<int> sizes) { return mesh::DeviceMesh::create(MPI_COMM_WORLD, std::move(sizes)); }

/// Meshes of two axes; collective.
inline std::vector<std::vector<int>> two_axes() {
  std::vector<std::vector<int>> sizes{{1, ranks}, {ranks, 1}};
  if (ranks == 4)
    sizes.push_back({2, 2});
  return sizes;
}

inline LayoutPtr reference_of(std::vector<Shape> shapes, int segments = ranks) {
  return std::make_shared<GlobalLayout>(build_reference(std::move(shapes), segments));
}

/// Whether an element of the flat buffer belongs to a tensor.
inline std::vector<bool> payload_of(const GlobalLayout& layout) {
  std::vector<bool> payload(static_cast<std::size_t>(layout.size()), false);
  for (int i = 0; i < layout.num_tensors(); ++i)
    for (std::int64_t e = layout.tensor_range(i).begin; e < layout.tensor_range(i).end; ++e)
      payload[static_cast<std::size_t>(e)] = true;
  return payload;
}

/// The coordinates of world rank `r`: the last axis is the fastest.
inline std::vector<int> coordinates_of(int r, const std::vector<int>& sizes) {
  std::vector<int> coordinates(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0; r /= sizes[axis])
    coordinates[axis] = r % sizes[axis];
  return coordinates;
}

/// The range of world rank `r`: halving the whole from the innermost Shard axis out.
inline Range range_of(const GlobalLayout& layout, const Placements& placements, const std::vector<int>& sizes, int r) {
  const std::vector<int> coordinates = coordinates_of(r, sizes);
  Range range{0, layout.size()};
  for (std::size_t axis = sizes.size(); axis-- > 0;)
    if (placements[axis].is_shard()) {
      const std::int64_t piece = range.size() / sizes[axis];
      range.begin += coordinates[axis] * piece;
      range.end = range.begin + piece;
    }
  return range;
}

using Values = std::function<double(std::int64_t)>;

/// Writes value(i) into global element i and zero into padding; padding_too: value(i) everywhere.
inline void fill(const DBuffer& buffer, const Values& value, bool padding_too = false) {
  const std::vector<bool> payload = payload_of(*buffer.layout());
  for (std::int64_t i = buffer.range().begin; i < buffer.range().end; ++i)
    set_element(buffer.data(), i - buffer.range().begin, buffer.dtype(),
                padding_too || payload[static_cast<std::size_t>(i)] ? value(i) : 0);
}

/// Expects value(i) in every element of a tensor and zero bits in padding.
inline void expect_values(const DBuffer& buffer, const Values& value) {
  const std::vector<bool> payload = payload_of(*buffer.layout());
  for (std::int64_t i = buffer.range().begin; i < buffer.range().end; ++i) {
    const double found = element(buffer.data(), i - buffer.range().begin, buffer.dtype());
    ASSERT_EQ(found, payload[static_cast<std::size_t>(i)] ? value(i) : 0)
        << "element " << i << (payload[static_cast<std::size_t>(i)] ? "" : " (padding)");
  }
}

/// A value that is exact in every type and stays so when four ranks are summed.
inline double small(std::int64_t i) { return static_cast<double>(12 * ((i * 7 + i / 6) % 5 + 1)); }

} // namespace ostraka::buffer::test
