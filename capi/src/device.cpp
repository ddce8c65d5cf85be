// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/device.h>
#include <ostraka/runtime/device.hpp>

using namespace ostraka;
using namespace ostraka::capi;

static_assert(OSTRAKA_DEVICE_HOST == static_cast<int>(runtime::Device::host));
static_assert(OSTRAKA_DEVICE_CUDA == static_cast<int>(runtime::Device::cuda));

extern "C" {

ostraka_status_t ostraka_has_device(int32_t device, int32_t* has) {
  return wall(__func__, [&] { output(has, "has") = runtime::has_device(to_device(device)) ? 1 : 0; });
}

ostraka_status_t ostraka_cuda_device(int32_t* index) {
  return wall(__func__, [&] {
    int32_t& result = output(index, "index");
    result = runtime::cuda_device();
  });
}

ostraka_status_t ostraka_select_cuda_device(int32_t index) {
  return wall(__func__, [&] { runtime::select_cuda_device(index); });
}

ostraka_status_t ostraka_set_compute_stream(void* stream) {
  return wall(__func__, [&] { runtime::set_compute_stream(stream); });
}

ostraka_status_t ostraka_native_compute_stream(void** stream) {
  return wall(__func__, [&] {
    void*& result = output(stream, "stream");
    result = runtime::native_compute_stream();
  });
}

ostraka_status_t ostraka_is_device_memory(const void* address, int32_t* is_device) {
  return wall(__func__, [&] { output(is_device, "is_device") = runtime::is_device_memory(address) ? 1 : 0; });
}

ostraka_status_t ostraka_copy_now(int32_t device, const void* from, void* to, int64_t bytes) {
  return wall(__func__, [&] {
    const runtime::Device found = to_device(device);
    expect(bytes >= 0, Status::INVALID_ARGUMENT, "copy: expected a number of bytes >= 0, found ", bytes);
    expect(bytes == 0 || (from != nullptr && to != nullptr), Status::INVALID_ARGUMENT, "copy: an address is null");
    runtime::copy_now(found, from, to, bytes);
  });
}
}
