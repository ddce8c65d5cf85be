// SPDX-License-Identifier: Apache-2.0
// The device of this process: its streams, and copies from and to its memory. A process uses one GPU at most. Without
// CUDA in the build everything but the host throws NOT_SUPPORTED naming the CMake option.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>
#include <memory>
#include <string>

namespace ostraka::runtime {

/// Whether streams of `device` can be made: the library was built for it and this process has one.
OSTRAKA_API bool has_device(Device device);
/// Throws NOT_SUPPORTED naming `operation` and what to do unless has_device().
OSTRAKA_API void require_device(Device device, const char* operation);

/// Which GPU of this machine the process uses: what select_cuda_device said, else OSTRAKA_DEVICE=cuda:N, else the rank
/// on this machine that the launcher tells, modulo the number of GPUs. A Kokkos with CUDA that the program has started
/// before the library decides, whatever the environment says.
OSTRAKA_API int cuda_device();
/// Chooses it, before anything uses it (INVALID_STATE afterwards): before the library is initialised where its Kokkos
/// has CUDA. Throws INVALID_ARGUMENT for one that is not there.
OSTRAKA_API void select_cuda_device(int index);
/// Takes the one on which Kokkos runs kernels. Throws INVALID_STATE where select_cuda_device said another one.
void adopt_cuda_device(int index);
/// Equal for processes on one machine that use the same GPU.
OSTRAKA_API std::int64_t cuda_device_id();

/// The stream on which operations of buffers run: on hosts the caller's thread. Work of one process is one queue, so
/// that a sequence of operations needs no events.
OSTRAKA_API std::shared_ptr<Stream> compute_stream(Device device);
/// Makes a stream of the caller, a cudaStream_t that outlives its use here, the compute stream of the device; null:
/// the library's own again. What the old one has queued comes before what the new one gets, and whoever has the compute
/// stream goes over to it, too.
OSTRAKA_API void set_compute_stream(void* native);

/// The cudaStream_t of the device's compute stream, on which callers put their own work. Between calls of the library
/// everything that it has queued there is with the device.
OSTRAKA_API void* native_compute_stream();

/// A further stream, for communication: on devices of the highest priority. Errors skip what follows and travel through
/// events, as make_host_queue.
OSTRAKA_API std::shared_ptr<Stream> make_queue(Device device, std::string name);

/// Queues a copy of `bytes` bytes on the stream of `execution`; on hosts it is done at once, and may overlap. Memory of
/// devices and of hosts may be mixed on a device's stream. Host memory that is not pinned is read before this returns.
OSTRAKA_API void copy(const Execution& execution, const void* from, void* to, std::int64_t bytes);
/// The same, done on return: waits for what the device's compute stream has queued.
OSTRAKA_API void copy_now(Device device, const void* from, void* to, std::int64_t bytes);
/// The point after everything queued on the stream of `execution`. On hosts: complete.
OSTRAKA_API Event record(const Execution& execution);
/// Later work on the stream of `execution` waits for `event`, which another call of record() returned.
OSTRAKA_API void wait(const Execution& execution, const Event& event);

/// Whether a device can read and write at `address`, and hosts need copies.
OSTRAKA_API bool is_device_memory(const void* address);

} // namespace ostraka::runtime
