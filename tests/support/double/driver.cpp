// SPDX-License-Identifier: Apache-2.0
// The entry points of CUDA's driver: addresses, and memory behind them.
#include "engine.hpp"

#include <cuda.h>

#include <map>

using ostraka::cuda_double::Engine;

namespace {

std::byte* at(CUdeviceptr data) { return reinterpret_cast<std::byte*>(data); }

std::map<CUmemGenericAllocationHandle, std::size_t>& allocations() {
  static auto& all = *new std::map<CUmemGenericAllocationHandle, std::size_t>; // handle -> bytes
  return all;
}

constexpr std::size_t page = std::size_t{1} << 16; // real ones have 2 MiB; tests make many small arenas

bool is_whole(std::size_t bytes) {
  if (bytes % page != 0)
    Engine::get().misuse("sizes of memory that are no multiples of the granularity");
  return bytes % page == 0;
}

} // namespace

extern "C" {

CUresult cuGetErrorString(CUresult, const char** text) {
  *text = "an error of the double";
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(std::size_t* bytes, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *bytes = page;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* data, std::size_t bytes, std::size_t, CUdeviceptr, unsigned long long) {
  std::byte* const reserved = is_whole(bytes) ? Engine::get().reserve(bytes) : nullptr;
  *data = reinterpret_cast<CUdeviceptr>(reserved);
  return reserved != nullptr ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemAddressFree(CUdeviceptr data, std::size_t) {
  Engine::get().unreserve(at(data));
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t bytes, const CUmemAllocationProp*,
                     unsigned long long) {
  static CUmemGenericAllocationHandle last = 0;
  if (!is_whole(bytes) || bytes > std::size_t{1} << 32)
    return CUDA_ERROR_OUT_OF_MEMORY;
  allocations()[*handle = ++last] = bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (allocations().erase(handle) == 0)
    Engine::get().misuse("cuMemRelease of an unknown handle");
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr, std::size_t bytes, std::size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long) {
  const auto found = allocations().find(handle);
  const bool fits = found != allocations().end() && offset == 0 && found->second == bytes;
  return fits ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Without this call nobody may use what is mapped.
CUresult cuMemSetAccess(CUdeviceptr data, std::size_t bytes, const CUmemAccessDesc*, std::size_t) {
  Engine::get().map(at(data), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr data, std::size_t bytes) {
  Engine::get().unmap(at(data), bytes);
  return CUDA_SUCCESS;
}

} // extern "C"
