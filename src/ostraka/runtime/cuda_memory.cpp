// SPDX-License-Identifier: Apache-2.0
#include <ostraka/runtime/cuda_memory.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/impl/cuda_check.hpp>

#include <cuda.h>

#include <utility>

namespace ostraka::runtime::cuda {

namespace {

using impl::check_cuda;
static_assert(sizeof(Handle) == sizeof(CUmemGenericAllocationHandle));

void check_driver(CUresult code, const char* operation, std::int64_t bytes) {
  if (code == CUDA_SUCCESS)
    return;
  const char* text = nullptr;
  cuGetErrorString(code, &text);
  fail(code == CUDA_ERROR_OUT_OF_MEMORY ? Status::OUT_OF_MEMORY : Status::FAILED, operation, " of ", bytes,
       " bytes of GPU ", impl::use_cuda_device(), ": CUDA error ", static_cast<int>(code), ": ",
       text != nullptr ? text : "unknown");
}

// Memory that stays on this GPU.
CUmemAllocationProp own_memory() {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = impl::use_cuda_device();
  return properties;
}

CUdeviceptr address(const std::byte* data) { return reinterpret_cast<CUdeviceptr>(data); }

} // namespace

std::int64_t total_memory() {
  impl::use_cuda_device();
  std::size_t free = 0, total = 0;
  check_cuda(cudaMemGetInfo(&free, &total), "the memory of the GPU"); // makes the context, too
  return static_cast<std::int64_t>(total);
}

std::int64_t granularity() {
  static const std::int64_t bytes = [] {
    total_memory();
    const CUmemAllocationProp properties = own_memory();
    std::size_t found = 0;
    check_driver(cuMemGetAllocationGranularity(&found, &properties, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED),
                 "granularity", 0);
    return static_cast<std::int64_t>(found);
  }();
  return bytes;
}

std::byte* reserve(std::int64_t bytes) {
  total_memory();
  CUdeviceptr data = 0;
  check_driver(cuMemAddressReserve(&data, static_cast<std::size_t>(bytes), 0, 0, 0), "reservation", bytes);
  return reinterpret_cast<std::byte*>(data);
}

void free_addresses(std::byte* data, std::int64_t bytes) noexcept {
  cuMemAddressFree(address(data), static_cast<std::size_t>(bytes));
}

Handle map(std::byte* data, std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  const CUmemAllocationProp properties = own_memory();
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CUmemGenericAllocationHandle handle = 0;
  check_driver(cuMemCreate(&handle, size, &properties, 0), "allocation", bytes);
  CUresult code = cuMemMap(address(data), size, 0, handle, 0);
  if (code == CUDA_SUCCESS) {
    code = cuMemSetAccess(address(data), size, &access, 1);
    if (code != CUDA_SUCCESS)
      cuMemUnmap(address(data), size);
  }
  if (code != CUDA_SUCCESS)
    cuMemRelease(handle);
  check_driver(code, "mapping", bytes);
  return handle;
}

void unmap(std::byte* data, std::int64_t bytes, Handle handle) noexcept {
  cuMemUnmap(address(data), static_cast<std::size_t>(bytes));
  cuMemRelease(handle);
}

void fill(const Execution& execution, std::byte* data, int value, std::int64_t bytes) {
  check_cuda(cudaMemsetAsync(data, value, static_cast<std::size_t>(bytes), static_cast<cudaStream_t>(execution.native)),
             "a fill");
}

std::byte* allocate_pinned(std::int64_t bytes) {
  impl::use_cuda_device();
  void* data = nullptr;
  check_cuda(cudaHostAlloc(&data, static_cast<std::size_t>(bytes), cudaHostAllocDefault),
             "allocation of " + std::to_string(bytes) + " bytes of pinned host memory");
  return static_cast<std::byte*>(data);
}

void free_pinned(std::byte* data) noexcept { cudaFreeHost(data); }

} // namespace ostraka::runtime::cuda
