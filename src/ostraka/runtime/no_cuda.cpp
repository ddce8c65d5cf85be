// SPDX-License-Identifier: Apache-2.0
// Builds without CUDA: hosts as ever, for a GPU an error that says which build has it.
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/cuda_memory.hpp>
#include <ostraka/runtime/device.hpp>

#include <cstring>

namespace ostraka::runtime {

namespace {

[[noreturn]] void refuse(const char* operation) {
  fail(Status::NOT_SUPPORTED, operation,
       ": this build has no CUDA; configure with the preset cuda, that is with -DKokkos_ROOT of a Kokkos that has it");
}

void require_host(Device device, const char* operation) {
  if (device != Device::host)
    refuse(operation);
}

} // namespace

bool has_device(Device device) { return device == Device::host; }
void require_device(Device device, const char* operation) { require_host(device, operation); }
int cuda_device() { refuse("cuda_device"); }
void select_cuda_device(int) { refuse("select_cuda_device"); }
std::int64_t cuda_device_id() { refuse("cuda_device_id"); }

std::shared_ptr<Stream> compute_stream(Device device) {
  require_host(device, "compute_stream");
  static const auto stream = make_host_compute_stream();
  return stream;
}

void set_compute_stream(void*) { refuse("set_compute_stream"); }
void* native_compute_stream() { refuse("native_compute_stream"); }

std::shared_ptr<Stream> make_queue(Device device, std::string name) {
  require_host(device, "make_queue");
  return make_host_queue(std::move(name));
}

void copy(const Execution& execution, const void* from, void* to, std::int64_t bytes) {
  require_host(execution.device, "copy");
  if (bytes > 0 && from != to)
    std::memmove(to, from, static_cast<std::size_t>(bytes));
}

void copy_now(Device device, const void* from, void* to, std::int64_t bytes) { copy({device}, from, to, bytes); }
Event record(const Execution&) { return {}; }
void wait(const Execution&, const Event&) {}
bool is_device_memory(const void*) { return false; }

namespace cuda {

std::int64_t total_memory() { refuse("total_memory"); }
std::int64_t granularity() { refuse("granularity"); }
std::byte* reserve(std::int64_t) { refuse("reserve"); }
void free_addresses(std::byte*, std::int64_t) noexcept {}
Handle map(std::byte*, std::int64_t) { refuse("map"); }
void unmap(std::byte*, std::int64_t, Handle) noexcept {}
void fill(const Execution&, std::byte*, int, std::int64_t) { refuse("fill"); }
std::byte* allocate_pinned(std::int64_t) { refuse("allocate_pinned"); }
void free_pinned(std::byte*) noexcept {}

} // namespace cuda

} // namespace ostraka::runtime
