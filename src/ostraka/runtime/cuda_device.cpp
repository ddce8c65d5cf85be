// SPDX-License-Identifier: Apache-2.0
// Which GPU this process uses.
#include <ostraka/base/environment.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/impl/cuda_check.hpp>

#include <optional>

namespace ostraka::runtime {

namespace {

std::optional<int> selected; ///< by the caller
bool is_in_use = false;

int count_devices() {
  int count = 0;
  const cudaError_t code = cudaGetDeviceCount(&count); // which says an error where there is no driver
  return code == cudaSuccess ? count : 0;
}

void require_index(int index, int count, const char* what) {
  expect(index >= 0 && index < count, Status::INVALID_ARGUMENT, what, ": expected a GPU from 0 to ", count - 1,
         " of this machine, found ", index);
}

} // namespace

bool has_device(Device device) { return device == Device::host || count_devices() > 0; }

void require_device(Device device, const char* operation) {
  expect(has_device(device), Status::NOT_SUPPORTED, operation,
         ": this process sees no GPU (is there a driver, and what does CUDA_VISIBLE_DEVICES say?)");
}

int cuda_device() {
  require_device(Device::cuda, "cuda_device");
  const int count = count_devices();
  if (selected)
    return *selected;
  const int wanted = environment::device().index;
  if (wanted >= 0)
    require_index(wanted, count, "OSTRAKA_DEVICE");
  return wanted >= 0 ? wanted : environment::local_rank() % count;
}

void select_cuda_device(int index) {
  require_device(Device::cuda, "select_cuda_device");
  require_index(index, count_devices(), "select_cuda_device");
  expect(!is_in_use || index == cuda_device(), Status::INVALID_STATE, "select_cuda_device: GPU ", cuda_device(),
         " is in use already");
  selected = index;
}

void adopt_cuda_device(int index) {
  expect(!selected || *selected == index, Status::INVALID_STATE, "initialize: select_cuda_device said GPU ",
         selected.value_or(index), ", but the program has started Kokkos on GPU ", index);
  select_cuda_device(index);
}

std::int64_t cuda_device_id() {
  char text[32] = {};
  impl::check_cuda(cudaDeviceGetPCIBusId(text, sizeof text, cuda_device()), "cuda_device_id");
  return Hash().add(std::string(text)).value();
}

namespace impl {

int use_cuda_device() {
  static const int index = [] {
    const int chosen = cuda_device();
    check_cuda(cudaSetDevice(chosen), "use of GPU " + std::to_string(chosen));
    is_in_use = true;
    return chosen;
  }();
  return index;
}

} // namespace impl

} // namespace ostraka::runtime
