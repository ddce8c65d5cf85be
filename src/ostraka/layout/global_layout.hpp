// SPDX-License-Identifier: Apache-2.0
// Where the tensors of a group stand in one flat buffer and how the buffer is cut into segments, one per rank.
// Pure values: every rank computes the same layout alone. Counts and offsets are elements.
// Source: seed 000, spec/megatron_fsdp.md 1.2 - 1.4.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/layout/placement.hpp>
#include <ostraka/layout/range.hpp>
#include <ostraka/layout/shape.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ostraka::layout {

/// How a layout was chosen; numbers are part of the C ABI.
enum class Policy : std::int32_t {
  reference = 0, ///< dim-0 rows stay whole; padded to equal segments by the LCM rule of spec 1.4, bit-exact
  planned = 1,   ///< elements may be cut anywhere; equal segments, least padding
};

OSTRAKA_API const char* name(Policy policy);

/// The coordinates of a rank on a mesh; axes are ordered outer to inner, sizes >= 1, 0 <= coordinate < size.
struct MeshPosition {
  std::span<const int> sizes;
  std::span<const int> coordinates;
};

class OSTRAKA_API GlobalLayout {
public:
  /// A layout of equal segments: tensor i occupies [offsets[i], offsets[i] + numel(shapes[i])), and rank segment k is
  /// [k, k+1) * segment_size. Throws INVALID_ARGUMENT naming the tensor when tensors overlap or leave the buffer.
  /// Empty tensors may stand anywhere.
  GlobalLayout(Policy policy, std::vector<Shape> shapes, std::vector<std::int64_t> offsets, int segments,
               std::int64_t segment_size);

  Policy policy() const { return policy_; }
  int num_tensors() const { return static_cast<int>(shapes_.size()); }
  const std::vector<Shape>& shapes() const { return shapes_; }

  /// Shape of tensor `index`; throws INVALID_ARGUMENT for an index out of range, like all functions below.
  const Shape& shape(int index) const;
  /// Absolute range of tensor `index` in the flat buffer.
  Range tensor_range(int index) const;

  /// Elements of the whole buffer, padding included.
  std::int64_t size() const { return segments_ * segment_size_; }
  /// Elements of all tensors.
  std::int64_t payload() const { return payload_; }
  std::int64_t padding() const { return size() - payload_; }

  int segments() const { return segments_; }
  std::int64_t segment_size() const { return segment_size_; }

  /// The absolute range that the rank at `position` holds under `placements`: the innermost Shard axis is the most
  /// significant digit of the segment index (spec 1.2). Throws INVALID_ARGUMENT when the placements are not legal or
  /// the number of segments is no multiple of the number of shards.
  Range local_range(std::span<const Placement> placements, const MeshPosition& position) const;

  /// The ranges of `local` that belong to no tensor, in ascending order (absolute).
  std::vector<Range> gaps(const Range& local) const;

  /// Equal on ranks whose layouts are equal; compared in collective set-up calls.
  std::int64_t hash() const;

  bool operator==(const GlobalLayout&) const = default;

private:
  void check_index(int index) const;

  Policy policy_;
  std::vector<Shape> shapes_;
  std::vector<std::int64_t> offsets_;
  std::vector<int> by_offset_; ///< indices of the non-empty tensors, ascending offset
  int segments_;
  std::int64_t segment_size_;
  std::int64_t payload_ = 0;
};

/// Policy `reference`: every cut falls between dim-0 rows of every tensor (spec 1.4, bit-exact); 0-D tensors count as
/// one row of one element; empty tensors are legal in any order. `segments` = product of all mesh axes.
/// Throws INVALID_ARGUMENT (segments < 1, a zero extent after the first dimension, sizes beyond 64 bits).
OSTRAKA_API GlobalLayout build_reference(std::vector<Shape> shapes, int segments);

/// Alignment of a planned layout, in elements; 1 asks for none.
struct Alignment {
  std::int64_t tensor = 1;  ///< every tensor starts at a multiple of this
  std::int64_t segment = 1; ///< every segment is a multiple of this
};

/// Policy `planned` with element atoms: tensors in their order, each at the next aligned start, equal segments of the
/// least legal size. A tensor may be cut anywhere. Throws INVALID_ARGUMENT as build_reference.
OSTRAKA_API GlobalLayout build_planned(std::vector<Shape> shapes, int segments, const Alignment& alignment = {});

/// What a layout costs, as one line of text: payload, padding (elements and percent), segment, policy.
OSTRAKA_API std::string report(const GlobalLayout& layout);

} // namespace ostraka::layout
