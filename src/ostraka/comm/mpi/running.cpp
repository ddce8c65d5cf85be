// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/comm/running.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

namespace ostraka::comm {

void require_running(const char* operation) {
  runtime::require_running(operation);
  int finalized = 0;
  MPI_Finalized(&finalized);
  expect(finalized == 0, Status::INVALID_STATE, operation,
         ": MPI is finalised already; what is left can only be destroyed");
}

} // namespace ostraka::comm
