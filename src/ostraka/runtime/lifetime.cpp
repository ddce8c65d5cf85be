// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/lifetime.hpp>
#include <ostraka/runtime/trace.hpp>

#include <Kokkos_Core.hpp>

namespace ostraka::runtime {

namespace {

int starts = 0;
bool owns_kokkos = false;

Kokkos::InitializationSettings settings() {
  Kokkos::InitializationSettings result;
#ifdef KOKKOS_ENABLE_CUDA
  require_device(Device::cuda, "initialize (this build has CUDA)");
  result.set_device_id(cuda_device());
#endif
  return result.set_disable_warnings(true);
}

} // namespace

void initialize() {
  if (starts == 0) {
    environment::timeout_seconds(); // a malformed variable is found here, not in the middle of a step
    environment::log_level();
    environment::count_limit();
    environment::backend();
    environment::ranks_per_node();
    environment::device();
    environment::nccl_split();
    expect(!Kokkos::is_finalized(), Status::INVALID_STATE,
           "initialize: Kokkos was already finalised in this process and cannot start again");
    if (!Kokkos::is_initialized()) {
      Kokkos::initialize(settings());
      owns_kokkos = true;
    }
#ifdef KOKKOS_ENABLE_CUDA
    adopt_cuda_device(Kokkos::device_id()); // kernels run where the memory is
#endif
    trace::start();
  }
  ++starts;
}

void finalize() {
  expect(starts > 0, Status::INVALID_STATE, "finalize: the library is not initialised");
  if (--starts > 0)
    return;
  trace::finish();
  if (owns_kokkos && !Kokkos::is_finalized()) {
    Kokkos::finalize();
    owns_kokkos = false;
  }
}

bool is_initialized() noexcept { return starts > 0; }

void require_initialized(const char* operation) {
  expect(is_initialized(), Status::INVALID_STATE, operation,
         ": the library is not initialised (call ostraka_initialize, or hold a runtime::Session)");
}

void require_running(const char* operation) {
  expect(is_initialized(), Status::INVALID_STATE, operation,
         ": the library is not initialised any more; what is left can only be destroyed");
  expect(!Kokkos::is_finalized(), Status::INVALID_STATE, operation,
         ": Kokkos was finalised by the program; what is left can only be destroyed");
}

} // namespace ostraka::runtime
