// SPDX-License-Identifier: Apache-2.0
// Helpers of the buffer tests: meshes, layouts, contents by global element, and the rank order of spec 1.2 written
// again.
#pragma once

#include "support/any_memory.hpp"
#include "support/elements.hpp"
#include "support/expect_error.hpp"
#include "support/world.hpp"
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/layout/builders.hpp>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::buffer::test {

using namespace ostraka::layout;
using namespace ostraka::test;

inline const Placement R = replicate(), S = shard(), P = partial(), A = partial(ReduceOp::mean),
                       Max = partial(ReduceOp::max), Min = partial(ReduceOp::min), Prod = partial(ReduceOp::prod);
inline constexpr ReduceOp all_ops[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod};

/// New memory holds NaN in these tests and operations are compared between ranks, unless the caller set the variable:
/// one ctest entry sets it to 0.
class Checks final : public testing::Environment {
public:
  void SetUp() override { setenv("OSTRAKA_CHECK", "1", 0); }
};
inline testing::Environment* const checks = testing::AddGlobalTestEnvironment(new Checks);

/// On `device`, or where OSTRAKA_DEVICE says.
inline MeshPtr mesh_of(std::vector<int> sizes, std::optional<runtime::Device> device = {}) {
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, std::move(sizes), {}, device);
}

/// Meshes of one to three axes for this number of ranks.
inline std::vector<std::vector<int>> all_meshes() {
  switch (ranks) {
  case 4:
    return {{4}, {1, 4}, {4, 1}, {2, 2}, {2, 1, 2}, {2, 2, 1}};
  case 6:
    return {{6}, {2, 3}, {3, 2}, {3, 1, 2}};
  case 8:
    return {{8}, {2, 4}, {4, 2}, {2, 2, 2}};
  default:
    return {{ranks}, {1, ranks}, {ranks, 1}, {1, ranks, 1}};
  }
}

/// Those of `axes` axes.
inline std::vector<std::vector<int>> meshes_of(std::size_t axes) {
  std::vector<std::vector<int>> meshes = all_meshes();
  std::erase_if(meshes, [&](const std::vector<int>& sizes) { return sizes.size() != axes; });
  return meshes;
}
inline std::vector<std::vector<int>> two_axes() { return meshes_of(2); }

inline LayoutPtr share(GlobalLayout layout) { return std::make_shared<const GlobalLayout>(std::move(layout)); }

inline LayoutPtr reference_of(std::vector<Shape> shapes, int segments = ranks) {
  return share(build_reference(std::move(shapes), segments));
}

/// One layout of each policy, ragged ones in two kinds of pieces.
inline std::vector<LayoutPtr> every_layout(const std::vector<Shape>& shapes, int segments = ranks) {
  std::vector<int> owners;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    owners.push_back(static_cast<int>(5 * i + 1) % segments);
  return {reference_of(shapes, segments),
          share(build_planned(shapes, segments, {4, 2}, {row_atom()})),
          share(build_flat(shapes, segments, {8, 4})),
          share(build_ragged(shapes, segments)),
          share(build_ragged(shapes, segments, {row_atom()})),
          share(build_tensor_atomic(shapes, segments, owners))};
}

/// Ragged segments of these lengths, filled by one tensor.
inline LayoutPtr segments_of(const std::vector<std::int64_t>& lengths) {
  Segments segments;
  for (const std::int64_t length : lengths)
    segments.append(1, length);
  return std::make_shared<const GlobalLayout>(Policy::ragged, std::vector<Shape>{{segments.size()}},
                                              std::vector<std::int64_t>{0}, segments);
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

/// The range of world rank `r`: dividing the segments from the innermost Shard axis out.
inline Range range_of(const GlobalLayout& layout, const Placements& placements, const std::vector<int>& sizes, int r) {
  const std::vector<int> coordinates = coordinates_of(r, sizes);
  int first = 0, count = layout.segments();
  for (std::size_t axis = sizes.size(); axis-- > 0;)
    if (placements[axis].is_shard()) {
      count /= sizes[axis];
      first += coordinates[axis] * count;
    }
  return {layout.segment_range(first).begin, layout.segment_range(first + count - 1).end};
}

using Values = std::function<double(std::int64_t)>;

// As those of support/elements.hpp, also in memory of devices.
inline double element(const void* data, std::int64_t index, DType dtype) {
  const std::int64_t width = width_of(dtype);
  return ostraka::test::element(bytes_at(static_cast<const std::byte*>(data) + index * width, width).data(), 0, dtype);
}
inline void set_element(void* data, std::int64_t index, DType dtype, double value) {
  std::byte bytes[8];
  ostraka::test::set_element(bytes, 0, dtype, value);
  write_at(static_cast<std::byte*>(data) + index * width_of(dtype), bytes, width_of(dtype));
}
inline std::vector<double> elements(const void* data, std::int64_t count, DType dtype) {
  return ostraka::test::elements(bytes_at(data, count * width_of(dtype)).data(), count, dtype);
}

/// Writes value(i) into global element i and zero into padding; padding_too: value(i) everywhere.
inline void fill(const DBuffer& buffer, const Values& value, bool padding_too = false) {
  const std::vector<bool> payload = payload_of(*buffer.layout());
  std::vector<double> values;
  for (std::int64_t i = buffer.range().begin; i < buffer.range().end; ++i)
    values.push_back(padding_too || payload[static_cast<std::size_t>(i)] ? value(i) : 0);
  write_at(buffer.data(), encode(values, buffer.dtype()).data(), buffer.bytes());
}

/// Overwrites everything, padding too, with bytes that are NaN in floating types.
inline void spoil(const DBuffer& buffer) {
  const std::vector<std::byte> wrong(static_cast<std::size_t>(buffer.bytes()), std::byte{0xff});
  write_at(buffer.data(), wrong.data(), buffer.bytes());
}

inline std::vector<std::byte> bytes_of(const DBuffer& buffer) { return bytes_at(buffer.data(), buffer.bytes()); }

/// Expects value(i) in every element of a tensor and zero bits in padding.
inline void expect_values(const DBuffer& buffer, const Values& value) {
  const std::vector<bool> payload = payload_of(*buffer.layout());
  const std::int64_t width = width_of(buffer.dtype());
  const std::vector<std::byte> found = bytes_of(buffer);
  for (std::int64_t i = 0; i < buffer.numel(); ++i) {
    const std::int64_t global = buffer.range().begin + i;
    if (payload[static_cast<std::size_t>(global)]) {
      ASSERT_EQ(ostraka::test::element(found.data(), i, buffer.dtype()), value(global)) << "element " << global;
    } else {
      const auto* bytes = found.data() + i * width;
      ASSERT_TRUE(std::all_of(bytes, bytes + width, [](std::byte b) { return b == std::byte{0}; }))
          << "padding " << global;
    }
  }
}

/// A value that is exact in every type and stays so when four ranks are summed.
inline double small(std::int64_t i) { return static_cast<double>(12 * ((i * 7 + i / 6) % 5 + 1)); }

inline Values times(double factor) {
  return [factor](std::int64_t i) { return factor * small(i); };
}

/// 1 + ... + n
inline double triangle(int n) { return n * (n + 1) / 2.0; }

/// Fails on every rank when one has failed, so that all leave a loop of collective calls together. Collective.
inline bool has_failed_anywhere() {
  int failed = testing::Test::HasFailure();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return failed != 0;
}

} // namespace ostraka::buffer::test
