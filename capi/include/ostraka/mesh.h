/* SPDX-License-Identifier: Apache-2.0
 *
 * A mesh arranges the ranks of an MPI communicator on named axes, outer axis first; ranks are numbered with the last
 * axis fastest. It owns duplicates of communicators and the memory arena of what is created on it.
 */
#ifndef OSTRAKA_MESH_H
#define OSTRAKA_MESH_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates a mesh over `comm`, which is duplicated. Collective over `comm`.
 *   dims   number of axes, >= 1
 *   sizes  [dims] ranks per axis; their product must be the size of `comm`; NULL with dims 1: all ranks
 *   names  [dims] distinct names, or NULL for "axis0", "axis1", ...
 * INVALID_STATE: library or MPI not initialised. INVALID_ARGUMENT: MPI_COMM_NULL, sizes or names. RANKS_DISAGREE. */
ostraka_status_t ostraka_mesh_create(MPI_Comm comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                     ostraka_mesh_t* mesh);

/* The same with memory on `device`: OSTRAKA_DEVICE_HOST, OSTRAKA_DEVICE_CUDA, or -1: where the environment variable
 * OSTRAKA_DEVICE says (default: the host), as ostraka_mesh_create. Equal on all ranks. NOT_SUPPORTED where a rank has
 * no such device. */
ostraka_status_t ostraka_mesh_create_on(MPI_Comm comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                        int32_t device, ostraka_mesh_t* mesh);

/* Both for a Fortran communicator. */
ostraka_status_t ostraka_mesh_create_f(MPI_Fint comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                       ostraka_mesh_t* mesh);
ostraka_status_t ostraka_mesh_create_on_f(MPI_Fint comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                          int32_t device, ostraka_mesh_t* mesh);

/* Destroys the mesh. Collective when it is the last user of its communicators (buffers and contexts hold on to their
 * mesh); after MPI_Finalize only local memory is freed. */
ostraka_status_t ostraka_mesh_destroy(ostraka_mesh_t* mesh);

/* Local queries. `axis` counts from 0 at the outermost axis. */
ostraka_status_t ostraka_mesh_dims(ostraka_mesh_t mesh, int32_t* dims);
ostraka_status_t ostraka_mesh_device(ostraka_mesh_t mesh, int32_t* device);
ostraka_status_t ostraka_mesh_rank(ostraka_mesh_t mesh, int32_t* rank);
ostraka_status_t ostraka_mesh_size(ostraka_mesh_t mesh, int32_t* size);
ostraka_status_t ostraka_mesh_axis(ostraka_mesh_t mesh, const char* name, int32_t* axis);
ostraka_status_t ostraka_mesh_axis_size(ostraka_mesh_t mesh, int32_t axis, int32_t* size);
ostraka_status_t ostraka_mesh_coordinate(ostraka_mesh_t mesh, int32_t axis, int32_t* coordinate);

/* Bytes of one kind on this rank that what was created on the mesh has in use now, and at most so far. Buffers are of
 * kind OSTRAKA_MEMORY_OTHER, scratch of redistributions is OSTRAKA_MEMORY_TRANSIENT; what a context holds is not in
 * here but in ostraka_fsdp_context_memory. Storage counts in multiples of 64 bytes, and not at all while it is released
 * or is memory of the caller. INVALID_ARGUMENT: no such kind. */
ostraka_status_t ostraka_mesh_memory(ostraka_mesh_t mesh, int32_t kind, int64_t* in_use, int64_t* peak);

#ifdef __cplusplus
}
#endif

#endif
