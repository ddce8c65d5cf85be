// SPDX-License-Identifier: Apache-2.0
// How synchronous operations run: queued on the compute stream of a device, and waited for.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/stream.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

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

/// The same where `work` communicates over `mesh`: NCCL finds some errors when the operation is queued already. What
/// failed before, perhaps on other lines, is nobody's concern here.
template <class Work>
void communicate_now(const mesh::DeviceMesh& mesh, const char* operation, Work&& work) {
  if (mesh.device() == runtime::Device::host)
    return run_now(mesh.device(), operation, std::forward<Work>(work));
  const std::vector<std::string> before = mesh.communicators().failures();
  run_now(mesh.device(), operation, std::forward<Work>(work));
  for (const std::string& cause : mesh.communicators().failures())
    expect(std::find(before.begin(), before.end(), cause) != before.end(), Status::COMMUNICATION, operation,
           ": its result is undefined, since it failed on the device: ", cause, "; make a new mesh");
}

} // namespace ostraka::buffer::impl
