// SPDX-License-Identifier: Apache-2.0
// What this rank holds of every tensor, by name, in the tensor's own coordinates. Arithmetic on what the rank knows:
// no communication. Source: seed 001, spec/megatron_fsdp.md section 4.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/layout/boxes.hpp>

#include <map>
#include <span>
#include <string>
#include <vector>

namespace ostraka::checkpoint {

/// This rank's part of a tensor; elements are counted from the tensor's first. A rank without elements has an empty
/// range that begins where lower positions end.
struct Chunk {
  layout::Shape shape; ///< of the whole tensor
  layout::Range elements;
  /// Those of them that this rank writes: where several ranks hold the same range of a buffer it is cut evenly among
  /// them, in the order of their coordinates on the axes that replicate, so every element has exactly one writer.
  layout::Range written;

  /// Whole dim-0 rows; INVALID_ARGUMENT where the elements are not.
  layout::RowChunk rows() const { return layout::row_chunk(shape, elements); }
  /// The same as a box; a scalar has one without dimensions.
  layout::Box row_box() const;
  /// Any elements as at most 2 (dimensions - 1) + 1 boxes; none for no elements.
  std::vector<layout::Box> boxes() const { return layout::boxes(shape, elements); }

  bool operator==(const Chunk&) const = default;
};

/// The box of rows [first_row, first_row + num_rows) of a tensor. INVALID_ARGUMENT when they leave it.
OSTRAKA_API layout::Box make_row_box(std::span<const std::int64_t> shape, const layout::RowChunk& rows);

/// This rank's part of tensor `index` of a buffer. INVALID_ARGUMENT for a buffer with Partial placements.
OSTRAKA_API Chunk chunk(const buffer::DBuffer& buffer, int index);

/// Of the main weights of `states`, by full name; tied names have equal chunks, and what the library does not own is
/// absent. Optimizer state has the chunks of its parameter. Local. INVALID_ARGUMENT for two tensors of one name.
OSTRAKA_API std::map<std::string, Chunk> chunks(std::span<const buffer::NamedState> states);

/// One of them; INVALID_ARGUMENT for a name that is not there.
OSTRAKA_API Chunk chunk_of(std::span<const buffer::NamedState> states, const std::string& name);

} // namespace ostraka::checkpoint
