/* SPDX-License-Identifier: Apache-2.0
 *
 * GPUs: which one this process uses, the stream on which operations run, and copies. A process uses one GPU at most.
 * Without CUDA in the build everything that is about a GPU is NOT_SUPPORTED and names the build that has it.
 *
 * On a mesh of GPUs (ostraka_mesh_create_on) addresses of ostraka_buffer_local, _tensor_view and _tensor_range are
 * those of the GPU: hand them to kernels, or to ostraka_copy_now. Operations on buffers run on the compute stream of
 * the GPU, behind what it has queued, and return when they are complete.
 */
#ifndef OSTRAKA_DEVICE_H
#define OSTRAKA_DEVICE_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* `has` is 1 where memory and streams of the device can be had: the library was built for it and the process sees one.
 * Local, also before ostraka_initialize. */
ostraka_status_t ostraka_has_device(int32_t device, int32_t* has);

/* Which GPU of this machine the process uses, from 0: what ostraka_select_cuda_device said, else OSTRAKA_DEVICE=cuda:N,
 * else the rank on this machine that the launcher tells, modulo the number of GPUs. Local. NOT_SUPPORTED: none. */
ostraka_status_t ostraka_cuda_device(int32_t* index);

/* Chooses it, before ostraka_initialize. Local. INVALID_ARGUMENT: there is none of this number; INVALID_STATE: another
 * one is in use; NOT_SUPPORTED. */
ostraka_status_t ostraka_select_cuda_device(int32_t index);

/* Makes a stream of the caller, a cudaStream_t that outlives its use here, the compute stream of the GPU: operations
 * run behind what the caller has queued on it, and what he queues later behind them. NULL: the library's own again.
 * What the old one has queued comes before what the new one gets. Local. NOT_SUPPORTED without a GPU. */
ostraka_status_t ostraka_set_compute_stream(void* stream);

/* The cudaStream_t of the GPU's compute stream: what the caller queues on it comes behind what the library has queued,
 * and before what he asks for next. Valid until ostraka_set_compute_stream; the library's own also until the process
 * ends. Local. NOT_SUPPORTED without a GPU. */
ostraka_status_t ostraka_native_compute_stream(void** stream);

/* `is_device` is 1 for an address at which a GPU reads and writes and hosts need copies. Local. */
ostraka_status_t ostraka_is_device_memory(const void* address, int32_t* is_device);

/* Copies `bytes` bytes between memory of `device` and of the host, or within one, on the compute stream; complete on
 * return. Local. NOT_SUPPORTED: no such device. */
ostraka_status_t ostraka_copy_now(int32_t device, const void* from, void* to, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif
