// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/lifetime.hpp>
#include <ostraka/runtime/trace.hpp>

#include <Kokkos_Core.hpp>

namespace ostraka::runtime {

namespace {

int starts = 0;
bool owns_kokkos = false;

} // namespace

void initialize() {
  if (starts == 0) {
    environment::timeout_seconds(); // a malformed variable is found here, not in the middle of a step
    environment::log_level();
    environment::count_limit();
    environment::backend();
    environment::ranks_per_node();
    expect(!Kokkos::is_finalized(), Status::INVALID_STATE,
           "initialize: Kokkos was already finalised in this process and cannot start again");
    if (!Kokkos::is_initialized()) {
      Kokkos::initialize(Kokkos::InitializationSettings().set_disable_warnings(true));
      owns_kokkos = true;
    }
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
