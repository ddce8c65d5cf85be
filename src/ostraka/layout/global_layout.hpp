// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a group stand in one flat buffer and how the buffer is cut into segments, one per rank.
// Pure values: every rank computes the same layout alone. Counts and offsets are elements.
// Source: seed 000, spec/megatron_fsdp.md 1.2 - 1.4.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/layout/placement.hpp>
#include <ostraka/layout/range.hpp>
#include <ostraka/layout/segments.hpp>
#include <ostraka/layout/shape.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::layout {

/// How a layout is chosen; numbers are part of the C ABI.
enum class Policy : std::int32_t {
  reference = 0,     ///< rows (or blocks of rows) stay whole; padded to equal segments by the LCM rule of spec 1.4
  planned = 1,       ///< equal segments; order and offsets chosen for the least segment
  ragged = 2,        ///< no padding, unequal segments, the largest one minimal
  flat = 3,          ///< planned with element atoms
  tensor_atomic = 4, ///< every tensor whole on one rank
  automatic = 5,     ///< asks for planned or ragged by a stated rule; no layout ends up with it
};

OSTRAKA_API const char* name(Policy policy); ///< as in reports

/// The coordinates of a rank on a mesh; axes are ordered outer to inner, sizes >= 1, 0 <= coordinate < size.
struct MeshPosition {
  std::span<const int> sizes;
  std::span<const int> coordinates;
};

/// The coordinates of a rank where the last axis is the fastest.
OSTRAKA_API std::vector<int> coordinates_of(int rank, std::span<const int> sizes);

/// One of `count` parts that Shard axes make of a buffer.
struct Part {
  std::int64_t index;
  std::int64_t count;
};
/// The part of the rank at `position` under `placements`: the innermost Shard axis is the most significant digit of its
/// index (spec 1.2). Throws INVALID_ARGUMENT when the placements are not legal.
OSTRAKA_API Part part_of(std::span<const Placement> placements, const MeshPosition& position);

class OSTRAKA_API GlobalLayout {
public:
  /// Tensor i occupies [offsets[i], offsets[i] + numel(shapes[i])); rank k holds segment k of `segments`. `reason` says
  /// why this layout was chosen. Throws INVALID_ARGUMENT naming the tensor when tensors overlap or leave the buffer.
  /// Empty tensors may stand anywhere.
  GlobalLayout(Policy policy, std::vector<Shape> shapes, std::vector<std::int64_t> offsets, Segments segments,
               std::string reason = {});
  /// The same with equal segments.
  GlobalLayout(Policy policy, std::vector<Shape> shapes, std::vector<std::int64_t> offsets, int segments,
               std::int64_t segment_size);

  Policy policy() const { return policy_; } ///< the one chosen, never automatic
  int num_tensors() const { return static_cast<int>(shapes_.size()); }
  const std::vector<Shape>& shapes() const { return shapes_; }

  /// Shape of tensor `index`; throws INVALID_ARGUMENT for an index out of range, like all functions below.
  const Shape& shape(int index) const;
  /// Absolute range of tensor `index` in the flat buffer.
  Range tensor_range(int index) const;

  /// Elements of the whole buffer, padding included.
  std::int64_t size() const { return segments_.size(); }
  /// Elements of all tensors.
  std::int64_t payload() const { return payload_; }
  std::int64_t padding() const { return size() - payload_; }
  /// Why this layout was chosen; no part of its value.
  const std::string& reason() const { return reason_; }
  void set_reason(std::string reason) { reason_ = std::move(reason); }

  /// Number of segments, one per rank of a mesh in which all axes are sharded.
  int segments() const { return segments_.count(); }
  bool has_equal_segments() const { return segments_.are_equal(); }
  /// The largest segment; the only length when segments are equal.
  std::int64_t segment_size() const { return segments_.largest(); }
  /// All cuts, as runs of equal segments.
  const Segments& cuts() const { return segments_; }
  /// Absolute range of segment `index`. O(log tensors).
  Range segment_range(int index) const;
  /// First and last segment (both included) that hold elements of tensor `index`; an empty tensor gives {0, -1}.
  struct Owners {
    int first;
    int last;
  };
  Owners owners(int index) const;

  /// The absolute range that the rank at `position` holds under `placements`: its part_of() the segments. Throws
  /// INVALID_ARGUMENT when the placements are not legal or the number of segments is no multiple of the parts.
  Range local_range(std::span<const Placement> placements, const MeshPosition& position) const;

  /// The ranges of `local` that belong to no tensor, in ascending order (absolute).
  std::vector<Range> gaps(const Range& local) const;

  /// Equal on ranks whose layouts are equal; compared in collective set-up calls.
  std::int64_t hash() const;

  /// Equal tensors at equal places with equal segments, whatever the reason.
  bool operator==(const GlobalLayout& other) const;

private:
  void check_index(int index) const;

  Policy policy_;
  std::vector<Shape> shapes_;
  std::vector<std::int64_t> offsets_;
  std::vector<int> by_offset_; ///< indices of the non-empty tensors, ascending offset
  Segments segments_;
  std::string reason_;
  std::int64_t payload_ = 0;
};

} // namespace ostraka::layout
