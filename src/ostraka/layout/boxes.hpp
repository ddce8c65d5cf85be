// SPDX-License-Identifier: Apache-2.0
// A rank's part of a tensor in the tensor's own coordinates, for checkpoints and for showing users what they hold.
// Source: seed 001, spec/megatron_fsdp.md section 4.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/layout/range.hpp>
#include <ostraka/layout/shape.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace ostraka::layout {

/// A rectangular part of a tensor: `offsets` and `sizes` have one entry per dimension.
struct Box {
  Shape offsets;
  Shape sizes;

  bool operator==(const Box&) const = default;
};

/// The elements of the tensor at `tensor` that `local` holds (both absolute), counted from the tensor's first. When it
/// holds none, the range is empty and begins at the number of elements that lower positions hold.
OSTRAKA_API Range owned_elements(const Range& tensor, const Range& local);

/// Consecutive dim-0 rows of a tensor.
struct RowChunk {
  std::int64_t first_row;
  std::int64_t num_rows;

  bool operator==(const RowChunk&) const = default;
};

/// The dim-0 rows that `elements` (counted from the tensor's first) are; a scalar is one row. Throws INVALID_ARGUMENT
/// naming boxes() when they are not whole rows.
OSTRAKA_API RowChunk row_chunk(std::span<const std::int64_t> shape, const Range& elements);

/// The elements [begin, end) of a tensor, counted from its first, as at most 2 (dimensions - 1) + 1 boxes in ascending
/// order; none when the range is empty. Throws INVALID_ARGUMENT when the range leaves the tensor.
OSTRAKA_API std::vector<Box> boxes(std::span<const std::int64_t> shape, const Range& elements);

} // namespace ostraka::layout
