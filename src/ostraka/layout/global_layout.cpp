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
  expect(position.sizes.size() == position.coordinates.size(), Status::INVALID_ARGUMENT, "mesh position: expected ",
         position.sizes.size(), " mesh coordinates, one per axis, found ", position.coordinates.size());
  for (std::size_t axis = 0; axis < position.sizes.size(); ++axis) {
    const int size = position.sizes[axis];
    const int coordinate = position.coordinates[axis];
    expect(size >= 1, Status::INVALID_ARGUMENT, "mesh position: axis ", axis, ": expected a size >= 1, found ", size);
    expect(coordinate >= 0 && coordinate < size, Status::INVALID_ARGUMENT, "mesh position: axis ", axis,
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
  case Policy::ragged:
    return "ragged";
  case Policy::flat:
    return "flat";
  case Policy::tensor_atomic:
    return "tensor_atomic";
  case Policy::automatic:
    return "automatic";
  }
  fail(Status::INVALID_ARGUMENT, "layout policy: expected a number from 0 (reference) to 5 (automatic), found ",
       static_cast<std::int32_t>(policy));
}

GlobalLayout::GlobalLayout(Policy policy, std::vector<Shape> shapes, std::vector<std::int64_t> offsets,
                           Segments segments, std::string reason)
    : policy_(policy), shapes_(std::move(shapes)), offsets_(std::move(offsets)), segments_(std::move(segments)),
      reason_(std::move(reason)) {
  name(policy); // throws for a number that is no policy
  expect(segments_.count() >= 1, Status::INVALID_ARGUMENT, "GlobalLayout: expected segments >= 1, found ",
         segments_.count());
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

GlobalLayout::GlobalLayout(Policy policy, std::vector<Shape> shapes, std::vector<std::int64_t> offsets, int segments,
                           std::int64_t segment_size)
    : GlobalLayout(policy, std::move(shapes), std::move(offsets), Segments::equal(segments, segment_size)) {}

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

std::vector<int> coordinates_of(int rank, std::span<const int> sizes) {
  std::vector<int> coordinates(sizes.size());
  for (std::size_t axis = sizes.size(); axis-- > 0; rank /= sizes[axis])
    coordinates[axis] = rank % sizes[axis];
  return coordinates;
}

Part part_of(std::span<const Placement> placements, const MeshPosition& position) {
  check_position(position);
  validate(placements, narrow(static_cast<std::int64_t>(position.sizes.size()), "part_of: mesh axes"));
  Part part{0, 1};
  for (std::size_t axis = placements.size(); axis-- > 0;) {
    if (!placements[axis].is_shard())
      continue;
    part.count = multiply(part.count, position.sizes[axis], "part_of: number of shards");
    part.index = part.index * position.sizes[axis] + position.coordinates[axis];
  }
  return part;
}

Range GlobalLayout::local_range(std::span<const Placement> placements, const MeshPosition& position) const {
  const Part part = part_of(placements, position);
  if (segments_.count() % part.count != 0)
    fail(Status::INVALID_ARGUMENT, "local_range: the layout was built for ", segments_.count(),
         " segments, expected a multiple of the ", part.count, " shards that ", to_string(placements),
         " makes of this mesh");
  const std::int64_t per_part = segments_.count() / part.count;
  return {segments_.begin(part.index * per_part), segments_.begin((part.index + 1) * per_part)};
}

Range GlobalLayout::segment_range(int index) const {
  expect(index >= 0 && index < segments_.count(), Status::INVALID_ARGUMENT, "segment_range: expected a segment in [0, ",
         segments_.count(), "), found ", index);
  return segments_.range(index);
}

GlobalLayout::Owners GlobalLayout::owners(int index) const {
  const Range tensor = tensor_range(index);
  if (tensor.size() == 0)
    return {0, -1};
  return {segments_.find(tensor.begin), segments_.find(tensor.end - 1)};
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
  hash.add(policy_).add(segments_.count()).add(segments_.runs().size()).add(shapes_.size());
  for (const Segments::Run& run : segments_.runs())
    hash.add(run.first).add(run.begin).add(run.length);
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

bool GlobalLayout::operator==(const GlobalLayout& other) const {
  return this == &other || (policy_ == other.policy_ && shapes_ == other.shapes_ && offsets_ == other.offsets_ &&
                            segments_ == other.segments_);
}

} // namespace ostraka::layout
