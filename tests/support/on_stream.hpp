// SPDX-License-Identifier: Apache-2.0
// Arithmetic of tests in the order of the compute stream, as kernels of a caller.
#pragma once

#include <ostraka/runtime/device.hpp>

#ifdef OSTRAKA_CUDA_DOUBLE
#include <ostraka/runtime/cuda_double.hpp>
#endif

#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace ostraka::test {

/// What arithmetic reads, or with T not const also writes.
template <class T>
std::span<T> span_of(T* data, std::int64_t count) {
  return {data, static_cast<std::size_t>(count)};
}

/// A copy for the host of memory of a device, that is written back where it may be written.
template <class T>
class HostCopy {
public:
  explicit HostCopy(std::span<T> on_device) : on_device_(on_device), elements_(on_device.size()) {
    runtime::copy_now(runtime::Device::cuda, on_device.data(), elements_.data(), bytes());
  }
  std::span<T> span() { return elements_; }
  void write_back() {
    if constexpr (!std::is_const_v<T>)
      runtime::copy_now(runtime::Device::cuda, elements_.data(), on_device_.data(), bytes());
  }

private:
  std::int64_t bytes() const { return static_cast<std::int64_t>(on_device_.size_bytes()); }

  std::span<T> on_device_;
  std::vector<std::remove_const_t<T>> elements_;
};

/// Whether hosts can read and write memory of devices: on the double, where it is not protected.
inline bool reaches_devices() {
#ifdef OSTRAKA_CUDA_DOUBLE
  const char* const protects = std::getenv("OSTRAKA_DOUBLE_PROTECT");
  return protects != nullptr && std::string(protects) == "0";
#else
  return false;
#endif
}

/// Runs `body` on `memory`: at once for a host; on a double whose memory hosts reach, the caller himself, not the
/// library, puts it on the compute stream of the device, where a fake stream runs it when its turn comes; else on
/// copies behind what the compute stream has queued.
template <class Body, class... T>
void on_stream(runtime::Device device, Body body, std::span<T>... memory) {
  if (device == runtime::Device::host)
    return body(memory...);
#ifdef OSTRAKA_CUDA_DOUBLE
  if (reaches_devices()) {
    runtime::cuda_double::launch("a kernel of the test", runtime::native_compute_stream(),
                                 [=]() mutable { body(memory...); });
    return;
  }
#endif
  std::tuple<HostCopy<T>...> copies{HostCopy<T>(memory)...};
  std::apply([&](auto&... copy) { body(copy.span()...); }, copies);
  std::apply([](auto&... copy) { (copy.write_back(), ...); }, copies);
}

/// Before a blocking call of MPI by a test: the double carries NCCL's work while somebody polls.
inline void settle(runtime::Device device) {
  runtime::synchronize(runtime::compute_stream(device)->record(), "the device of the test");
}

} // namespace ostraka::test
