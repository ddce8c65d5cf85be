// SPDX-License-Identifier: Apache-2.0
// The entry points of CUDA's runtime, and how kernels come to the fake streams.
#include "engine.hpp"
#include <ostraka/runtime/cuda_double.hpp>

#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

using ostraka::cuda_double::Engine;
using ostraka::cuda_double::Event;
using ostraka::cuda_double::setting;
using ostraka::cuda_double::Stream;
using ostraka::cuda_double::Work;

namespace {

Stream* of(cudaStream_t stream) { return reinterpret_cast<Stream*>(stream); }
Event* of(cudaEvent_t event) { return reinterpret_cast<Event*>(event); }
int devices() { return static_cast<int>(setting("OSTRAKA_DOUBLE_DEVICES", 16)); }
int current = 0;
bool calls_fail = false;

bool is_free_to_read(Engine& engine, const void* data) { return engine.is_device(data) || engine.is_pinned(data); }

// Whether memory can be used; memory of hosts always.
bool check_side(const void* data, std::size_t bytes, const char* user) {
  Engine& engine = Engine::get();
  return !engine.is_device(data) || engine.expect_mapped(data, bytes, user);
}

void enqueue_copy(Stream* stream, void* to, const void* from, std::size_t bytes) {
  check_side(to, bytes, "cudaMemcpyAsync");
  check_side(from, bytes, "cudaMemcpyAsync");
  Engine::get().push(stream, {"cudaMemcpyAsync", [to, from, bytes] {
                                const Engine::Access access;
                                if (check_side(to, bytes, "a queued copy") && check_side(from, bytes, "a queued copy"))
                                  std::memmove(to, from, bytes);
                                return true;
                              }});
}

} // namespace

void ostraka::cuda_double::fail_calls(bool fails) { calls_fail = fails; }

namespace ostraka::runtime::cuda_double {

void launch(const char* label, void* stream, std::function<void()> kernel) {
  Engine::get().push(static_cast<Stream*>(stream), {label, [kernel = std::move(kernel)] {
                                                      const Engine::Access access;
                                                      kernel();
                                                      return true;
                                                    }});
}

} // namespace ostraka::runtime::cuda_double

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  *count = devices();
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaSetDevice(int device) {
  current = device;
  return device >= 0 && device < devices() ? cudaSuccess : cudaErrorInvalidDevice;
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "0000:%02x:00.0", device);
  return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *free = *total = std::size_t{1} << 32;
  return cudaSuccess;
}

const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheDouble"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of the double"; }

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned int flags, int) {
  if (flags != cudaStreamNonBlocking)
    Engine::get().misuse("a stream that waits for the legacy stream");
  *stream = reinterpret_cast<cudaStream_t>(Engine::get().make_stream());
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned int flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  Engine::get().destroy_stream(of(stream));
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int) {
  Engine::get().wait(of(stream), of(event)->point);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int) {
  *event = reinterpret_cast<cudaEvent_t>(new Event);
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (calls_fail)
    return cudaErrorUnknown;
  of(event)->point = Engine::get().record(of(stream));
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  const auto point = of(event)->point;
  return point == nullptr || Engine::get().query(*point) ? cudaSuccess : cudaErrorNotReady;
}

// What is in ordinary host memory is read before the call returns, or written.
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  Engine& engine = Engine::get();
  if (kind != cudaMemcpyDefault)
    engine.misuse("cudaMemcpyAsync of another kind than default");
  if (!is_free_to_read(engine, from)) {
    const auto* begin = static_cast<const std::byte*>(from);
    const auto copy = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
    check_side(to, bytes, "cudaMemcpyAsync");
    engine.push(of(stream), {"cudaMemcpyAsync", [to, copy] {
                               const Engine::Access access;
                               if (check_side(to, copy->size(), "a queued copy"))
                                 std::memcpy(to, copy->data(), copy->size());
                               return true;
                             }});
    return cudaSuccess;
  }
  enqueue_copy(of(stream), to, from, bytes);
  if (!is_free_to_read(engine, to)) {
    const auto point = engine.record(of(stream));
    engine.run_until([&] { return point->is_done; }, "a copy to ordinary host memory");
  }
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* data, int value, std::size_t bytes, cudaStream_t stream) {
  if (calls_fail)
    return cudaErrorUnknown;
  check_side(data, bytes, "cudaMemsetAsync");
  Engine::get().push(of(stream), {"cudaMemsetAsync", [=] {
                                    const Engine::Access access;
                                    if (check_side(data, bytes, "a queued fill"))
                                      std::memset(data, value, bytes);
                                    return true;
                                  }});
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* data) {
  *attributes = {};
  attributes->type = Engine::get().is_device(data)   ? cudaMemoryTypeDevice
                     : Engine::get().is_pinned(data) ? cudaMemoryTypeHost
                                                     : cudaMemoryTypeUnregistered;
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** data, std::size_t bytes, unsigned int) {
  *data = std::malloc(bytes);
  if (*data == nullptr)
    return cudaErrorMemoryAllocation;
  Engine::get().pinned[static_cast<std::byte*>(*data)] = bytes;
  return cudaSuccess;
}

cudaError_t cudaFreeHost(void* data) {
  if (Engine::get().pinned.erase(static_cast<std::byte*>(data)) == 0)
    Engine::get().misuse("cudaFreeHost of memory that is not pinned");
  std::free(data);
  return cudaSuccess;
}

} // extern "C"
