// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/chunks.h>

#include <iterator>

using namespace ostraka;
using namespace ostraka::capi;
using checkpoint::Chunk;

namespace {

void make_chunks(const std::vector<buffer::NamedState>& states, ostraka_chunks_t& result) {
  result = make_handle<ostraka_chunks_t>(std::make_shared<ChunksObject>(ChunksObject{checkpoint::chunks(states)}));
}

Chunk find(ostraka_chunks_t chunks, const char* name) {
  const auto object = get(chunks);
  const auto found = object->chunks.find(text(name, "name"));
  if (found != object->chunks.end())
    return found->second;
  constexpr int most = 8;
  std::string known;
  int named = 0;
  for (auto other = object->chunks.begin(); other != object->chunks.end() && named <= most; ++other, ++named)
    known += (named == 0 ? "" : ", ") + (named == most ? "..." : "'" + other->first + "'");
  fail(Status::INVALID_ARGUMENT, "no tensor has the name '", name, "'; there are: ", known.empty() ? "none" : known);
}

void from_range(const layout::Range& range, int64_t* offset, int64_t* count) {
  int64_t& first = output(offset, "offset");
  output(count, "count") = range.size();
  first = range.begin;
}

} // namespace

extern "C" {

ostraka_status_t ostraka_chunks_create(ostraka_fsdp_context_t context, ostraka_chunks_t* chunks) {
  return wall(__func__, [&] { make_chunks(get(context)->context->all_states(), output(chunks, "chunks")); });
}

ostraka_status_t ostraka_chunks_create_ddp(ostraka_ddp_t ddp, ostraka_chunks_t* chunks) {
  return wall(__func__, [&] { make_chunks(get(ddp)->ddp->all_states(), output(chunks, "chunks")); });
}

ostraka_status_t ostraka_chunks_destroy(ostraka_chunks_t* chunks) {
  return wall(__func__, [&] { remove(chunks); });
}

ostraka_status_t ostraka_chunks_num_names(ostraka_chunks_t chunks, int32_t* num_names) {
  return wall(__func__, [&] { output(num_names, "num_names") = static_cast<int32_t>(get(chunks)->chunks.size()); });
}

ostraka_status_t ostraka_chunks_name(ostraka_chunks_t chunks, int32_t index, const char** name) {
  return wall(__func__, [&] {
    const auto object = get(chunks);
    const std::size_t place = index_of("a name", index, std::ssize(object->chunks));
    output(name, "name") = std::next(object->chunks.begin(), static_cast<std::ptrdiff_t>(place))->first.c_str();
  });
}

ostraka_status_t ostraka_chunks_shape(ostraka_chunks_t chunks, const char* name, int32_t* ndim, int64_t* extents) {
  return wall(__func__, [&] { from_shape(find(chunks, name).shape, ndim, extents); });
}

ostraka_status_t ostraka_chunks_range(ostraka_chunks_t chunks, const char* name, int64_t* offset, int64_t* count) {
  return wall(__func__, [&] { from_range(find(chunks, name).elements, offset, count); });
}

ostraka_status_t ostraka_chunks_written(ostraka_chunks_t chunks, const char* name, int64_t* offset, int64_t* count) {
  return wall(__func__, [&] { from_range(find(chunks, name).written, offset, count); });
}

ostraka_status_t ostraka_chunks_rows(ostraka_chunks_t chunks, const char* name, int64_t* first_row, int64_t* num_rows) {
  return wall(__func__, [&] {
    const layout::RowChunk rows = find(chunks, name).rows();
    int64_t& first = output(first_row, "first_row");
    output(num_rows, "num_rows") = rows.num_rows;
    first = rows.first_row;
  });
}

ostraka_status_t ostraka_chunks_boxes(ostraka_chunks_t chunks, const char* name, int32_t max_boxes, int64_t* offsets,
                                      int64_t* sizes, int32_t* num_boxes) {
  return wall(__func__, [&] { from_boxes(find(chunks, name).boxes(), max_boxes, offsets, sizes, num_boxes); });
}

ostraka_status_t ostraka_row_box(ostraka_shape_t shape, int64_t first_row, int64_t num_rows, int64_t* offsets,
                                 int64_t* sizes) {
  return wall(__func__, [&] {
    int32_t num_boxes = 0;
    from_boxes({checkpoint::make_row_box(to_shape(shape), {first_row, num_rows})}, 1, offsets, sizes, &num_boxes);
  });
}
}
