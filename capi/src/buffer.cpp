// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/buffer.h>

using namespace ostraka;
using namespace ostraka::capi;
using ostraka::buffer::DBuffer;

namespace {

buffer::LayoutPtr layout_or_null(ostraka_layout_t layout) { return layout == nullptr ? nullptr : get(layout)->layout; }

// Runs an operation that takes an optional `out` and returns a buffer.
template <class Operation>
void with_out(ostraka_buffer_t buffer, ostraka_buffer_t out, ostraka_buffer_t* result, Operation&& operation) {
  ostraka_buffer_t& target = output(result, "result");
  const auto source = get(buffer);
  const auto given = out == nullptr ? nullptr : get(out);
  target = make_buffer(operation(source->buffer, given ? &given->buffer : nullptr));
}

} // namespace

extern "C" {

ostraka_status_t ostraka_buffer_create(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                       ostraka_layout_t layout, int32_t dtype, ostraka_buffer_t* buffer) {
  return wall(__func__, [&] {
    ostraka_buffer_t& result = output(buffer, "buffer"); // before there is something to lose
    const auto on = get(mesh)->mesh;
    result = make_buffer(DBuffer(on, to_placements(placements, on->dims()), get(layout)->layout, to_dtype(dtype)));
  });
}

ostraka_status_t ostraka_buffer_create_symmetric(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                                 ostraka_layout_t layout, int32_t dtype, ostraka_buffer_t* buffer) {
  return wall(__func__, [&] {
    ostraka_buffer_t& result = output(buffer, "buffer");
    const auto on = get(mesh)->mesh;
    buffer::Allocation allocation;
    allocation.symmetric = true;
    result = make_buffer(
        DBuffer(on, to_placements(placements, on->dims()), get(layout)->layout, to_dtype(dtype), allocation));
  });
}

ostraka_status_t ostraka_buffer_empty(ostraka_mesh_t mesh, const ostraka_placement_t* placements, int32_t num_tensors,
                                      const ostraka_shape_t* shapes, int32_t dtype, ostraka_buffer_t* buffer) {
  return wall(__func__, [&] {
    ostraka_buffer_t& result = output(buffer, "buffer");
    const auto on = get(mesh)->mesh;
    result = make_buffer(
        DBuffer::empty(on, to_placements(placements, on->dims()), to_shapes(num_tensors, shapes), to_dtype(dtype)));
  });
}

ostraka_status_t ostraka_buffer_from_local(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                           ostraka_layout_t layout, int32_t dtype, void* data, int64_t count,
                                           int32_t clear_padding, ostraka_buffer_t* buffer) {
  return wall(__func__, [&] {
    ostraka_buffer_t& result = output(buffer, "buffer");
    const auto on = get(mesh)->mesh;
    const auto padding = clear_padding != 0 ? buffer::Padding::clear : buffer::Padding::refuse;
    result = make_buffer(DBuffer::from_local(data, count, on, to_placements(placements, on->dims()),
                                             get(layout)->layout, to_dtype(dtype), padding));
  });
}

ostraka_status_t ostraka_buffer_distribute(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                           ostraka_layout_t layout, int32_t num_tensors, const ostraka_shape_t* shapes,
                                           int32_t dtype, const void* const* tensors, ostraka_buffer_t* buffer) {
  return wall(__func__, [&] {
    ostraka_buffer_t& result = output(buffer, "buffer");
    const auto on = get(mesh)->mesh;
    const auto all = to_shapes(num_tensors, shapes);
    expect(num_tensors == 0 || tensors != nullptr, Status::INVALID_ARGUMENT, "'tensors' is null");
    result = make_buffer(DBuffer::distribute_tensors({tensors, all.size()}, all, to_dtype(dtype), on,
                                                     to_placements(placements, on->dims()), layout_or_null(layout)));
  });
}

ostraka_status_t ostraka_buffer_copy_from(ostraka_buffer_t buffer, int32_t index, const void* tensor, int64_t count) {
  return wall(__func__, [&] {
    DBuffer& target = get(buffer)->buffer;
    target.copy_from(index, tensor, count, target.dtype());
  });
}

ostraka_status_t ostraka_buffer_view(ostraka_buffer_t buffer, const ostraka_placement_t* placements,
                                     ostraka_buffer_t* view) {
  return wall(__func__, [&] {
    ostraka_buffer_t& result = output(view, "view");
    const auto source = get(buffer);
    result = make_buffer(source->buffer.view(to_placements(placements, source->buffer.mesh()->dims())));
  });
}

ostraka_status_t ostraka_buffer_cast(ostraka_buffer_t buffer, int32_t dtype, ostraka_buffer_t out,
                                     ostraka_buffer_t* result) {
  return wall(__func__, [&] {
    with_out(buffer, out, result,
             [&](const DBuffer& source, const DBuffer* target) { return source.cast(to_dtype(dtype), target); });
  });
}

ostraka_status_t ostraka_buffer_allgather(ostraka_buffer_t buffer, int32_t axis, ostraka_buffer_t out,
                                          ostraka_buffer_t* result) {
  return wall(__func__, [&] {
    with_out(buffer, out, result,
             [&](const DBuffer& source, const DBuffer* target) { return source.allgather(axis, target); });
  });
}

ostraka_status_t ostraka_buffer_reduce_scatter(ostraka_buffer_t buffer, int32_t axis, ostraka_buffer_t out,
                                               ostraka_buffer_t* result) {
  return wall(__func__, [&] {
    with_out(buffer, out, result,
             [&](const DBuffer& source, const DBuffer* target) { return source.reduce_scatter(axis, target); });
  });
}

ostraka_status_t ostraka_buffer_allreduce(ostraka_buffer_t buffer, int32_t axis, ostraka_buffer_t out,
                                          ostraka_buffer_t* result) {
  return wall(__func__, [&] {
    with_out(buffer, out, result,
             [&](const DBuffer& source, const DBuffer* target) { return source.allreduce(axis, target); });
  });
}

ostraka_status_t ostraka_buffer_redistribute(ostraka_buffer_t buffer, const ostraka_placement_t* placements,
                                             ostraka_buffer_t out, ostraka_buffer_t* result) {
  return wall(__func__, [&] {
    with_out(buffer, out, result, [&](const DBuffer& source, const DBuffer* target) {
      return source.redistribute(to_placements(placements, source.mesh()->dims()), target);
    });
  });
}

ostraka_status_t ostraka_buffer_redistribute_into(ostraka_buffer_t buffer, ostraka_buffer_t out) {
  return wall(__func__, [&] { get(buffer)->buffer.redistribute_into(get(out)->buffer); });
}

ostraka_status_t ostraka_buffer_set_name(ostraka_buffer_t buffer, const char* name) {
  return wall(__func__, [&] { get(buffer)->buffer.set_name(text(name, "name")); });
}

ostraka_status_t ostraka_buffer_local(ostraka_buffer_t buffer, void** data, int64_t* count, int64_t* begin) {
  return wall(__func__, [&] {
    const DBuffer& source = get(buffer)->buffer;
    output(data, "data") = source.data();
    output(count, "count") = source.numel();
    output(begin, "begin") = source.range().begin;
  });
}

ostraka_status_t ostraka_buffer_tensor_view(ostraka_buffer_t buffer, int32_t index, void** data, int64_t* num_rows,
                                            int64_t* first_row) {
  return wall(__func__, [&] {
    const buffer::TensorView view = get(buffer)->buffer.tensor_view(index);
    output(data, "data") = view.data;
    output(num_rows, "num_rows") = layout::rows(view.shape);
    output(first_row, "first_row") = view.first_row;
  });
}

ostraka_status_t ostraka_buffer_tensor_range(ostraka_buffer_t buffer, int32_t index, void** data, int64_t* count,
                                             int64_t* offset) {
  return wall(__func__, [&] {
    const buffer::TensorRange range = get(buffer)->buffer.tensor_range(index);
    output(data, "data") = range.data;
    output(count, "count") = range.count;
    output(offset, "offset") = range.offset;
  });
}

ostraka_status_t ostraka_buffer_mesh_dims(ostraka_buffer_t buffer, int32_t* dims) {
  return wall(__func__, [&] { output(dims, "dims") = get(buffer)->buffer.mesh()->dims(); });
}

ostraka_status_t ostraka_buffer_layout(ostraka_buffer_t buffer, ostraka_layout_t* layout) {
  return wall(__func__, [&] {
    ostraka_layout_t& result = output(layout, "layout");
    result = make_layout(get(buffer)->buffer.layout());
  });
}

ostraka_status_t ostraka_buffer_num_tensors(ostraka_buffer_t buffer, int32_t* num_tensors) {
  return wall(__func__, [&] { output(num_tensors, "num_tensors") = get(buffer)->buffer.layout()->num_tensors(); });
}

ostraka_status_t ostraka_buffer_tensor_shape(ostraka_buffer_t buffer, int32_t index, int32_t* ndim, int64_t* extents) {
  return wall(__func__, [&] { from_shape(get(buffer)->buffer.layout()->shape(index), ndim, extents); });
}

ostraka_status_t ostraka_buffer_dtype(ostraka_buffer_t buffer, int32_t* dtype) {
  return wall(__func__, [&] { output(dtype, "dtype") = static_cast<int32_t>(get(buffer)->buffer.dtype()); });
}

ostraka_status_t ostraka_buffer_release_storage(ostraka_buffer_t buffer) {
  return wall(__func__, [&] { get(buffer)->buffer.release_storage(); });
}

ostraka_status_t ostraka_buffer_reallocate_storage(ostraka_buffer_t buffer) {
  return wall(__func__, [&] { get(buffer)->buffer.reallocate_storage(); });
}

ostraka_status_t ostraka_buffer_is_allocated(ostraka_buffer_t buffer, int32_t* is_allocated) {
  return wall(__func__, [&] { output(is_allocated, "is_allocated") = get(buffer)->buffer.is_allocated() ? 1 : 0; });
}

ostraka_status_t ostraka_buffer_is_symmetric_memory(ostraka_buffer_t buffer, int32_t* is_symmetric) {
  return wall(__func__,
              [&] { output(is_symmetric, "is_symmetric") = get(buffer)->buffer.is_symmetric_memory() ? 1 : 0; });
}

ostraka_status_t ostraka_buffer_rendezvous(ostraka_buffer_t buffer, int32_t axis) {
  return wall(__func__, [&] { get(buffer)->buffer.rendezvous(axis); });
}

ostraka_status_t ostraka_buffer_destroy(ostraka_buffer_t* buffer) {
  return wall(__func__, [&] { remove(buffer); });
}
}
