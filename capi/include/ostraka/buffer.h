/* SPDX-License-Identifier: Apache-2.0
 *
 * A distributed buffer: a group of logical tensors in one local storage, with one placement per mesh axis.
 *
 * Functions marked "collective over the axis" are called by all ranks of that axis in the same order; they return when
 * this rank's result is complete. All others are local. Results are new handles to destroy;
 * they keep their mesh and layout alive. A result may share storage
 * with its source (said below); storage lives as long as one handle refers to it. `out` may be NULL (the result is
 * allocated) or a buffer of exactly the expected mesh, placements, layout and type, which then receives the result; the
 * returned handle refers to the same storage.
 *
 * Complex numbers are pairs: a tensor of the real type with an extra last dimension of 2, whose bytes are those of
 * `double complex` or `float complex`. Sums and means over ranks, and copies, are those of complex numbers (MAX, MIN
 * and PROD are not). A layout with the atom {OSTRAKA_ATOM_LAST_DIMS, 1} keeps every pair on one rank; the rows of
 * ostraka_buffer_empty and of a NULL layout keep it, too. A single number has the shape {1, 2}: {2} may be cut.
 */
#ifndef OSTRAKA_BUFFER_H
#define OSTRAKA_BUFFER_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Allocates the local range, zero-filled, for `layout`, whose number of segments must be a multiple of the shards. */
ostraka_status_t ostraka_buffer_create(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                       ostraka_layout_t layout, int32_t dtype, ostraka_buffer_t* buffer);

/* The same in memory that ostraka_buffer_rendezvous registers, where there is such memory; else as
 * ostraka_buffer_create. Created and destroyed in the same order by all ranks. */
ostraka_status_t ostraka_buffer_create_symmetric(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                                 ostraka_layout_t layout, int32_t dtype, ostraka_buffer_t* buffer);

/* The same with a reference layout of the given shapes. */
ostraka_status_t ostraka_buffer_empty(ostraka_mesh_t mesh, const ostraka_placement_t* placements, int32_t num_tensors,
                                      const ostraka_shape_t* shapes, int32_t dtype, ostraka_buffer_t* buffer);

/* Wraps `count` elements of the caller's memory, which must be the exact size of the local range and outlive every
 * handle on it. No copy; on a mesh of GPUs memory of the host is copied to where the mesh has its own. With
 * clear_padding = 0, padding that is not zero is refused (INVALID_ARGUMENT); with 1 it is overwritten by zeros. */
ostraka_status_t ostraka_buffer_from_local(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                           ostraka_layout_t layout, int32_t dtype, void* data, int64_t count,
                                           int32_t clear_padding, ostraka_buffer_t* buffer);

/* Every rank passes all tensors whole (C order, memory of the host); each keeps its own part. No communication.
 * `layout` may be NULL: a reference layout. */
ostraka_status_t ostraka_buffer_distribute(ostraka_mesh_t mesh, const ostraka_placement_t* placements,
                                           ostraka_layout_t layout, int32_t num_tensors, const ostraka_shape_t* shapes,
                                           int32_t dtype, const void* const* tensors, ostraka_buffer_t* buffer);

/* Copies this rank's part of the whole tensor `index`; `count` is its number of elements. */
ostraka_status_t ostraka_buffer_copy_from(ostraka_buffer_t buffer, int32_t index, const void* tensor, int64_t count);

/* A contained range under other placements; shares storage. */
ostraka_status_t ostraka_buffer_view(ostraka_buffer_t buffer, const ostraka_placement_t* placements,
                                     ostraka_buffer_t* view);

/* The same layout and placements in any type. Floating types round once, to nearest; integer types cut the fraction off
 * and take 0 for NaN; values out of range saturate: to the nearest limit of an integer type, to infinity in a floating
 * type. Same type without `out`: shares storage. */
ostraka_status_t ostraka_buffer_cast(ostraka_buffer_t buffer, int32_t dtype, ostraka_buffer_t out,
                                     ostraka_buffer_t* result);

/* SHARD -> REPLICATE on `axis`. Collective over the axis. */
ostraka_status_t ostraka_buffer_allgather(ostraka_buffer_t buffer, int32_t axis, ostraka_buffer_t out,
                                          ostraka_buffer_t* result);

/* PARTIAL -> SHARD on `axis`. Collective over the axis. 16-bit types are reduced in f32 in the order of the ranks and
 * rounded once; integers wrap around. */
ostraka_status_t ostraka_buffer_reduce_scatter(ostraka_buffer_t buffer, int32_t axis, ostraka_buffer_t out,
                                               ostraka_buffer_t* result);

/* PARTIAL -> REPLICATE on `axis`, by the same rules. Collective over the axis. */
ostraka_status_t ostraka_buffer_allreduce(ostraka_buffer_t buffer, int32_t axis, ostraka_buffer_t out,
                                          ostraka_buffer_t* result);

/* To other placements: any mixture of SHARD -> REPLICATE, REPLICATE -> SHARD, PARTIAL -> SHARD, PARTIAL -> REPLICATE
 * and REPLICATE -> PARTIAL of MEAN, MAX or MIN, one per axis. Without `out` the result shares storage when no axis is
 * gathered or reduced. `out` may share memory with the buffer, the same elements at the same addresses, which are then
 * overwritten. Collective over the axes that are gathered or reduced.
 * NOT_SUPPORTED names the axis: SHARD -> PARTIAL, PARTIAL -> another PARTIAL, REPLICATE -> PARTIAL of SUM or PROD, and
 * several axes with reductions whose order matters (all SUM and MEAN, or all equal, are fine). INVALID_STATE: released
 * storage. */
ostraka_status_t ostraka_buffer_redistribute(ostraka_buffer_t buffer, const ostraka_placement_t* placements,
                                             ostraka_buffer_t out, ostraka_buffer_t* result);

/* Copies all tensors into `out`, which has the same tensors and type in any layout and placements without PARTIAL, on
 * the same mesh or another one of the same ranks in the same order. Padding of `out` stays as it is. Collective over
 * the mesh. SHAPE_MISMATCH naming the tensor, TYPE_MISMATCH; NOT_SUPPORTED: PARTIAL on either side; INVALID_ARGUMENT:
 * other ranks, or the two share memory; INVALID_STATE: released storage. */
ostraka_status_t ostraka_buffer_redistribute_into(ostraka_buffer_t buffer, ostraka_buffer_t out);

/* Names the buffer in messages about communication; handles made from this one afterwards inherit the name. With
 * OSTRAKA_CHECK=1 all ranks must give the same one. */
ostraka_status_t ostraka_buffer_set_name(ostraka_buffer_t buffer, const char* name);

/* The local range, padding included: address, number of elements, absolute begin in the layout. Valid until the storage
 * is released. On a mesh of GPUs the address is the GPU's (ostraka/device.h), as those below. */
ostraka_status_t ostraka_buffer_local(ostraka_buffer_t buffer, void** data, int64_t* count, int64_t* begin);

/* This rank's rows of tensor `index`: address of the first, their number and the first one's index. An error naming
 * ostraka_buffer_tensor_range where a row is cut. */
ostraka_status_t ostraka_buffer_tensor_view(ostraka_buffer_t buffer, int32_t index, void** data, int64_t* num_rows,
                                            int64_t* first_row);

/* This rank's elements of tensor `index`: address, number and offset inside the tensor. Always works. */
ostraka_status_t ostraka_buffer_tensor_range(ostraka_buffer_t buffer, int32_t index, void** data, int64_t* count,
                                             int64_t* offset);

/* Number of axes of the buffer's mesh: how many placements view and redistribute read. */
ostraka_status_t ostraka_buffer_mesh_dims(ostraka_buffer_t buffer, int32_t* dims);

/* A handle of the buffer's layout, to be destroyed by the caller; it outlives the buffer. Local. */
ostraka_status_t ostraka_buffer_layout(ostraka_buffer_t buffer, ostraka_layout_t* layout);

/* Number of tensors of the layout. Local. */
ostraka_status_t ostraka_buffer_num_tensors(ostraka_buffer_t buffer, int32_t* num_tensors);

/* Number of dimensions and extents of the whole tensor `index`; `extents` has room for 8, or is NULL. */
ostraka_status_t ostraka_buffer_tensor_shape(ostraka_buffer_t buffer, int32_t index, int32_t* ndim, int64_t* extents);

/* Type of the elements (OSTRAKA_F64, ...). Local. */
ostraka_status_t ostraka_buffer_dtype(ostraka_buffer_t buffer, int32_t* dtype);

/* Gives the storage back to the arena, or takes it again (contents undefined, padding zero). All handles on it stay
 * valid; pointers do not. Local. */
ostraka_status_t ostraka_buffer_release_storage(ostraka_buffer_t buffer);
ostraka_status_t ostraka_buffer_reallocate_storage(ostraka_buffer_t buffer);
ostraka_status_t ostraka_buffer_is_allocated(ostraka_buffer_t buffer, int32_t* is_allocated);

/* `is_symmetric` is 1 where the storage is memory that ostraka_buffer_rendezvous registers: on GPUs with NCCL
 * from 2.30.7 on, if ostraka_buffer_create_symmetric made it. */
ostraka_status_t ostraka_buffer_is_symmetric_memory(ostraka_buffer_t buffer, int32_t* is_symmetric);

/* Registers this rank's storage with the mesh's communicators of `axis`, whose operations on it then may go straight
 * between the memories of GPUs, until it is gone on all ranks or the mesh ends. Where there is no such thing nothing
 * happens. Released storage keeps its memory and its registration. Collective over the axis. INVALID_ARGUMENT: no such
 * axis; INVALID_STATE: released storage; RANKS_DISAGREE: it is new on some ranks, or ranks registered their storages in
 * another order. */
ostraka_status_t ostraka_buffer_rendezvous(ostraka_buffer_t buffer, int32_t axis);

/* Destroys the handle and makes it NULL; a null one is no error. The storage goes with the last handle on it. Local. */
ostraka_status_t ostraka_buffer_destroy(ostraka_buffer_t* buffer);

#ifdef __cplusplus
}
#endif

#endif
