// SPDX-License-Identifier: Apache-2.0
// Arithmetic of tests in the order of the compute stream, as kernels of a caller.
#pragma once

#include <ostraka/runtime/device.hpp>

#ifdef OSTRAKA_CUDA_DOUBLE
#include <ostraka/runtime/cuda_double.hpp>
#endif

#include <stdexcept>
#include <utility>

namespace ostraka::test {

/// Runs `body` at once for a host; else the caller himself, not the library, puts it on the compute stream of the
/// device, where a fake stream runs it when its turn comes.
template <class Body>
void on_stream(runtime::Device device, Body body) {
  if (device == runtime::Device::host)
    return body();
#ifdef OSTRAKA_CUDA_DOUBLE
  runtime::cuda_double::launch("a kernel of the test", runtime::native_compute_stream(), std::move(body));
#else
  throw std::logic_error("on_stream: arithmetic of tests runs on hosts");
#endif
}

/// Before a blocking call of MPI by a test: the double carries NCCL's work while somebody polls.
inline void settle(runtime::Device device) {
  runtime::synchronize(runtime::compute_stream(device)->record(), "the device of the test");
}

} // namespace ostraka::test
