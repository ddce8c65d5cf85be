// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/layout/global_layout.hpp>
#include <ostraka/layout/impl/describe.hpp>

#include <algorithm>
#include <utility>

namespace ostraka::layout {
namespace {

std::string to_string(const Range& range) {
  return "[" + std::to_string(range.begin) + ", " + std::to_string(range.end) + ")";
}

void check_segments(int segments, std::int64_t segment_size) {
  expect(segments >= 1, Status::INVALID_ARGUMENT, "GlobalLayout: expected segments >= 1, found ", segments);
  expect(segment_size >= 0, Status::INVALID_ARGUMENT, "GlobalLayout: expected a segment size >= 0, found ",
         segment_size);
  // size() multiplies unchecked from here on.
  multiply(segments, segment_size, "GlobalLayout: size");
}

/// `numel` elements from `offset` on; throws when they do not lie in [0, size].
Range checked_range(std::size_t index, const Shape& shape, std::int64_t numel, std::int64_t offset, std::int64_t size) {
  // Compared by subtraction, since offset + numel may leave 64 bits.
  if (offset < 0 || numel > size || offset > size - numel)
    fail(Status::INVALID_ARGUMENT, "GlobalLayout: ", impl::describe(index, shape), ": expected ", numel,
         " elements inside ", to_string(Range{0, size}), ", found offset ", offset);
  return {offset, offset + numel};
}

std::vector<Range> checked_ranges(const std::vector<Shape>& shapes, const std::vector<std::int64_t>& offsets,
                                  std::int64_t size) {
  std::vector<Range> ranges;
  ranges.reserve(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i)
    ranges.push_back(checked_range(i, shapes[i], impl::numel_of("GlobalLayout", i, shapes[i]), offsets[i], size));
  return ranges;
}

/// Indices of the ranges that hold elements, by their begin: empty ones overlap nothing, wherever they stand.
std::vector<int> ascending(const std::vector<Range>& ranges) {
  std::vector<int> order;
  for (std::size_t i = 0; i < ranges.size(); ++i)
    if (ranges[i].size() > 0)
      order.push_back(static_cast<int>(i));
  const auto begin = [&](int index) { return ranges[static_cast<std::size_t>(index)].begin; };
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return begin(a) < begin(b); });
  return order;
}

void check_disjoint(const std::vector<Shape>& shapes, const std::vector<Range>& ranges, const std::vector<int>& order) {
  for (std::size_t k = 1; k < order.size(); ++k) {
    const auto left = static_cast<std::size_t>(order[k - 1]);
    const auto right = static_cast<std::size_t>(order[k]);
    if (ranges[right].begin < ranges[left].end)
      fail(Status::INVALID_ARGUMENT, "GlobalLayout: expected disjoint tensors, found ",
           impl::describe(left, shapes[left]), " at ", to_string(ranges[left]), " and ",
           impl::describe(right, shapes[right]), " at ", to_string(ranges[right]));
  }
}

void check_position(const MeshPosition& position) {
  expect(position.sizes.size() == position.coordinates.size(), Status::INVALID_ARGUMENT, "local_range: expected ",
         position.sizes.size(), " mesh coordinates, one per axis, found ", position.coordinates.size());
  for (std::size_t axis = 0; axis < position.sizes.size(); ++axis) {
    const int size = position.sizes[axis];
    const int coordinate = position.coordinates[axis];
    expect(size >= 1, Status::INVALID_ARGUMENT, "local_range: mesh axis ", axis, ": expected a size >= 1, found ",
           size);
    expect(coordinate >= 0 && coordinate < size, Status::INVALID_ARGUMENT, "local_range: mesh axis ", axis,
           ": expected a coordinate in [0, ", size, "), found ", coordinate);
  }
}

} // namespace

const char* name(Policy policy) {
  switch (policy) {
  case Policy::reference:
    return "reference";
  case Policy::planned:
    return "planned";
  }
  fail(Status::INVALID_ARGUMENT, "layout policy: expected reference (0) or planned (1), found ",
       static_cast<std::int32_t>(policy));
}

GlobalLayout::GlobalLayout(Policy policy, std::vector<Shape> shapes, std::vector<std::int64_t> offsets, int segments,
                           std::int64_t segment_size)
    : policy_(policy), shapes_(std::move(shapes)), offsets_(std::move(offsets)), segments_(segments),
      segment_size_(segment_size) {
  name(policy); // throws for a number that is no policy
  check_segments(segments, segment_size);
  expect(offsets_.size() == shapes_.size(), Status::INVALID_ARGUMENT, "GlobalLayout: expected ", shapes_.size(),
         " offsets, one per tensor, found ", offsets_.size());
  narrow(static_cast<std::int64_t>(shapes_.size()), "GlobalLayout: number of tensors");
  const std::vector<Range> ranges = checked_ranges(shapes_, offsets_, size());
  by_offset_ = ascending(ranges);
  check_disjoint(shapes_, ranges, by_offset_);
  // Disjoint ranges inside the buffer: the sum cannot exceed size().
  for (const Range& range : ranges)
    payload_ += range.size();
}

void GlobalLayout::check_index(int index) const {
  expect(index >= 0 && index < num_tensors(), Status::INVALID_ARGUMENT, "tensor index: expected one in [0, ",
         num_tensors(), "), found ", index);
}

const Shape& GlobalLayout::shape(int index) const {
  check_index(index);
  return shapes_[static_cast<std::size_t>(index)];
}

Range GlobalLayout::tensor_range(int index) const {
  const std::int64_t count = numel(shape(index));
  const std::int64_t offset = offsets_[static_cast<std::size_t>(index)];
  return {offset, offset + count};
}

Range GlobalLayout::local_range(std::span<const Placement> placements, const MeshPosition& position) const {
  check_position(position);
  validate(placements, narrow(static_cast<std::int64_t>(position.sizes.size()), "local_range: mesh axes"));
  std::int64_t shards = 1;
  std::int64_t index = 0;
  // From the innermost axis out, so that the innermost is the most significant digit (spec 1.2).
  for (std::size_t axis = placements.size(); axis-- > 0;) {
    if (!placements[axis].is_shard())
      continue;
    shards = multiply(shards, position.sizes[axis], "local_range: number of shards");
    index = index * position.sizes[axis] + position.coordinates[axis];
  }
  if (segments_ % shards != 0)
    fail(Status::INVALID_ARGUMENT, "local_range: the layout was built for ", segments_,
         " segments, expected a multiple of the ", shards, " shards that ", to_string(placements),
         " makes of this mesh");
  const std::int64_t per_shard = segments_ / shards * segment_size_;
  return {index * per_shard, (index + 1) * per_shard};
}

std::vector<Range> GlobalLayout::gaps(const Range& local) const {
  if (local.begin > local.end || !Range{0, size()}.contains(local))
    fail(Status::INVALID_ARGUMENT, "gaps: expected a range inside ", to_string(Range{0, size()}), ", found ",
         to_string(local));
  // Disjoint tensors in ascending order have ascending ends too.
  auto next = std::partition_point(by_offset_.begin(), by_offset_.end(),
                                   [&](int index) { return tensor_range(index).end <= local.begin; });
  std::vector<Range> result;
  std::int64_t covered = local.begin;
  for (; next != by_offset_.end() && covered < local.end; ++next) {
    const Range tensor = tensor_range(*next);
    if (tensor.begin > covered)
      result.push_back({covered, std::min(tensor.begin, local.end)});
    covered = tensor.end;
  }
  if (covered < local.end)
    result.push_back({covered, local.end});
  return result;
}

std::int64_t GlobalLayout::hash() const {
  Hash hash;
  hash.add(policy_).add(segments_).add(segment_size_).add(shapes_.size());
  for (const Shape& shape : shapes_) {
    // The rank goes first, so that the extents of neighbours cannot be taken for one another.
    hash.add(shape.size());
    for (const std::int64_t extent : shape)
      hash.add(extent);
  }
  for (const std::int64_t offset : offsets_)
    hash.add(offset);
  return hash.value();
}

} // namespace ostraka::layout
