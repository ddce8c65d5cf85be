// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/flat_buffer.h>

using namespace ostraka;
using namespace ostraka::capi;
using ostraka::buffer::FlatBuffer;

extern "C" {

ostraka_status_t ostraka_flat_buffer_create(ostraka_mesh_t mesh, int32_t axis, int32_t num_tensors,
                                            const ostraka_shape_t* shapes, int32_t dtype,
                                            ostraka_flat_buffer_t* buffer) {
  return wall(__func__, [&] {
    ostraka_flat_buffer_t& result = output(buffer, "buffer"); // before there is something to lose
    FlatBuffer flat(get(mesh)->mesh, to_shapes(num_tensors, shapes), to_dtype(dtype), axis);
    result = make_handle<ostraka_flat_buffer_t>(std::make_shared<FlatBufferObject>(FlatBufferObject{std::move(flat)}));
  });
}

ostraka_status_t ostraka_flat_buffer_num_tensors(ostraka_flat_buffer_t buffer, int32_t* num_tensors) {
  return wall(__func__, [&] { output(num_tensors, "num_tensors") = get(buffer)->flat.num_tensors(); });
}

ostraka_status_t ostraka_flat_buffer_dtype(ostraka_flat_buffer_t buffer, int32_t* dtype) {
  return wall(__func__, [&] { output(dtype, "dtype") = static_cast<int32_t>(get(buffer)->flat.dtype()); });
}

ostraka_status_t ostraka_flat_buffer_tensor_shape(ostraka_flat_buffer_t buffer, int32_t index, int32_t* ndim,
                                                  int64_t* extents) {
  return wall(__func__, [&] { from_shape(get(buffer)->flat.view(index).shape, ndim, extents); });
}

ostraka_status_t ostraka_flat_buffer_view(ostraka_flat_buffer_t buffer, int32_t index, void** data, int64_t* count) {
  return wall(__func__, [&] {
    const FlatBuffer::View view = get(buffer)->flat.view(index);
    output(data, "data") = view.data;
    output(count, "count") = layout::numel(view.shape);
  });
}

ostraka_status_t ostraka_flat_buffer_local_shard(ostraka_flat_buffer_t buffer, void** data, int64_t* count) {
  return wall(__func__, [&] {
    const FlatBuffer& flat = get(buffer)->flat;
    output(data, "data") = flat.local_shard();
    output(count, "count") = flat.shard_numel();
  });
}

ostraka_status_t ostraka_flat_buffer_data(ostraka_flat_buffer_t buffer, void** data, int64_t* count) {
  return wall(__func__, [&] {
    const FlatBuffer& flat = get(buffer)->flat;
    output(data, "data") = flat.data();
    output(count, "count") = flat.padded_numel();
  });
}

ostraka_status_t ostraka_flat_buffer_reduce_scatter(ostraka_flat_buffer_t buffer) {
  return wall(__func__, [&] { get(buffer)->flat.reduce_scatter(); });
}

ostraka_status_t ostraka_flat_buffer_all_gather(ostraka_flat_buffer_t buffer) {
  return wall(__func__, [&] { get(buffer)->flat.all_gather(); });
}

ostraka_status_t ostraka_flat_buffer_destroy(ostraka_flat_buffer_t* buffer) {
  return wall(__func__, [&] { remove(buffer); });
}
}
