// SPDX-License-Identifier: Apache-2.0
// Kernels in the build with a double of CUDA (preset cuda-double, tests/support/double): the fake streams run them.
#pragma once

#include <functional>

namespace ostraka::runtime::cuda_double {

/// Queues `kernel` on the fake stream `stream`.
void launch(const char* label, void* stream, std::function<void()> kernel);

} // namespace ostraka::runtime::cuda_double
