// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/chunks.hpp>

#include <algorithm>

namespace ostraka::checkpoint {

namespace {

using buffer::DBuffer;
using buffer::NamedState;
using layout::Range;

// The part of its range that a rank writes: one of as many even parts as there are ranks with that range.
Range written_range(const DBuffer& buffer) {
  std::int64_t index = 0, count = 1;
  const layout::MeshPosition position = buffer.mesh()->position();
  for (std::size_t axis = 0; axis < buffer.placements().size(); ++axis)
    if (buffer.placements()[axis].is_replicate()) {
      index = index * position.sizes[axis] + position.coordinates[axis];
      count *= position.sizes[axis];
    }
  const Range& range = buffer.range();
  const std::int64_t part = range.size() / count, more = range.size() % count;
  const auto begin_of = [&](std::int64_t k) { return range.begin + part * k + std::min(k, more); };
  return {begin_of(index), begin_of(index + 1)};
}

void add(std::map<std::string, Chunk>& chunks, const std::string& name, const Chunk& chunk) {
  expect(chunks.emplace(name, chunk).second, Status::INVALID_ARGUMENT, "chunks: two tensors have the name '", name,
         "'");
}

} // namespace

layout::Box make_row_box(std::span<const std::int64_t> shape, const layout::RowChunk& rows) {
  const std::int64_t all = shape.empty() ? 1 : shape[0];
  expect(rows.first_row >= 0 && rows.num_rows >= 0 && rows.first_row <= all - rows.num_rows, Status::INVALID_ARGUMENT,
         "rows of a tensor: expected a part of its ", all, ", found ", rows.num_rows, " from row ", rows.first_row);
  layout::Box box{layout::Shape(shape.size(), 0), layout::Shape(shape.begin(), shape.end())};
  if (!shape.empty()) {
    box.offsets[0] = rows.first_row;
    box.sizes[0] = rows.num_rows;
  }
  return box;
}

layout::Box Chunk::row_box() const { return make_row_box(shape, rows()); }

Chunk chunk(const DBuffer& buffer, int index) {
  for (const layout::Placement& placement : buffer.placements())
    expect(!placement.is_partial(), Status::INVALID_ARGUMENT, "chunks: tensor ", index,
           " is still to be reduced over an axis: its placements are ", layout::to_string(buffer.placements()));
  const Range tensor = buffer.layout()->tensor_range(index);
  return {buffer.layout()->shape(index), layout::owned_elements(tensor, buffer.range()),
          layout::owned_elements(tensor, written_range(buffer))};
}

std::map<std::string, Chunk> chunks(std::span<const NamedState> states) {
  std::map<std::string, Chunk> result;
  for (const NamedState& state : states) {
    for (std::size_t i = 0; i < state.tensor_names.size(); ++i)
      add(result, state.tensor_names[i], chunk(state.main_weight, static_cast<int>(i)));
    for (const auto& [name, index] : state.other_names)
      add(result, name, chunk(state.main_weight, index));
  }
  return result;
}

Chunk chunk_of(std::span<const NamedState> states, const std::string& name) {
  for (const NamedState& state : states) {
    const auto found = std::find(state.tensor_names.begin(), state.tensor_names.end(), name);
    if (found != state.tensor_names.end())
      return chunk(state.main_weight, static_cast<int>(found - state.tensor_names.begin()));
    if (const auto other = state.other_names.find(name); other != state.other_names.end())
      return chunk(state.main_weight, other->second);
  }
  fail(Status::INVALID_ARGUMENT, "chunks: no tensor has the name '", name, "'");
}

} // namespace ostraka::checkpoint
