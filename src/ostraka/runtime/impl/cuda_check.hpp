// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/base/error.hpp>

#include <cuda_runtime_api.h>

#include <string>

namespace ostraka::runtime::impl {

/// Throws FAILED with CUDA's text when `code` is an error of `operation`: what a device reports is rarely about the
/// call itself and mostly for good. OUT_OF_MEMORY where that is the reason.
inline void check_cuda(cudaError_t code, const std::string& operation) {
  if (code == cudaSuccess)
    return;
  const Status status = code == cudaErrorMemoryAllocation ? Status::OUT_OF_MEMORY : Status::FAILED;
  fail(status, operation, ": CUDA error ", static_cast<int>(code), " (", cudaGetErrorName(code),
       "): ", cudaGetErrorString(code));
}

/// Makes the GPU of this process current, and says which it is. Throws NOT_SUPPORTED where there is none.
int use_cuda_device();

} // namespace ostraka::runtime::impl
