// SPDX-License-Identifier: Apache-2.0
// How synchronous operations run: queued on the compute stream of a device, and waited for.
#pragma once

#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/stream.hpp>

namespace ostraka::buffer::impl {

/// `operation` names the wait in a time-out.
template <class Work>
void run_now(runtime::Device device, const char* operation, Work&& work) {
  const auto stream = runtime::compute_stream(device);
  work(*stream);
  runtime::synchronize(stream->record(), operation);
  if (device != runtime::Device::host)
    runtime::progress_all(); // lets go of what the work has used
}

} // namespace ostraka::buffer::impl
