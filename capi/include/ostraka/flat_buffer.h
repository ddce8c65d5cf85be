/* SPDX-License-Identifier: Apache-2.0
 *
 * The simple buffer: tensors packed one after the other in C order, the end padded with zeros so that every rank's
 * shard has the same number of elements. Every rank holds the whole; its shard is a permanent part of it. For fixed
 * sets of tensors that are written whole, summed and gathered; ostraka_buffer_t places, casts and redistributes.
 *
 * Functions marked "collective over the axis" are called by all ranks of that axis in the same order; they return when
 * this rank's result is complete. All others are local. Addresses are valid until the buffer is destroyed.
 */
#ifndef OSTRAKA_FLAT_BUFFER_H
#define OSTRAKA_FLAT_BUFFER_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Packs tensors of these shapes, zero-filled.
 *   axis   the ranks along this axis of the mesh share the buffer; the buffer keeps the mesh alive
 *   dtype  any type; the reference system's is OSTRAKA_BF16
 * Equal on all ranks of the axis. INVALID_ARGUMENT: axis, shapes, type. */
ostraka_status_t ostraka_flat_buffer_create(ostraka_mesh_t mesh, int32_t axis, int32_t num_tensors,
                                            const ostraka_shape_t* shapes, int32_t dtype,
                                            ostraka_flat_buffer_t* buffer);

/* Number of tensors. Local. */
ostraka_status_t ostraka_flat_buffer_num_tensors(ostraka_flat_buffer_t buffer, int32_t* num_tensors);

/* Type of the elements (OSTRAKA_F64, ...). Local. */
ostraka_status_t ostraka_flat_buffer_dtype(ostraka_flat_buffer_t buffer, int32_t* dtype);

/* Number of dimensions and extents of tensor `index`; `extents` has room for 8, or is NULL. */
ostraka_status_t ostraka_flat_buffer_tensor_shape(ostraka_flat_buffer_t buffer, int32_t index, int32_t* ndim,
                                                  int64_t* extents);

/* The whole tensor `index` inside the buffer: the address of its first element and their number. INVALID_ARGUMENT for
 * an index out of range. */
ostraka_status_t ostraka_flat_buffer_view(ostraka_flat_buffer_t buffer, int32_t index, void** data, int64_t* count);

/* This rank's shard: an equal part of the buffer for each rank of the axis, in order of their coordinates. */
ostraka_status_t ostraka_flat_buffer_local_shard(ostraka_flat_buffer_t buffer, void** data, int64_t* count);

/* The whole buffer, padding included: `count` is the smallest multiple of the number of ranks that holds all tensors.
 */
ostraka_status_t ostraka_flat_buffer_data(ostraka_flat_buffer_t buffer, void** data, int64_t* count);

/* Sums the whole buffer over the ranks; the local shard receives its part. 16-bit types are summed in f32 and rounded
 * once. Collective over the axis. */
ostraka_status_t ostraka_flat_buffer_reduce_scatter(ostraka_flat_buffer_t buffer);

/* Brings the local shards of all ranks into the whole buffer. Collective over the axis. */
ostraka_status_t ostraka_flat_buffer_all_gather(ostraka_flat_buffer_t buffer);

/* Destroys the handle and makes it NULL; a null one is no error. Pointers into it are dead. Local. */
ostraka_status_t ostraka_flat_buffer_destroy(ostraka_flat_buffer_t* buffer);

#ifdef __cplusplus
}
#endif

#endif
