// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/communicator.hpp>

#include <mpi.h>

#include <memory>
#include <string>

namespace ostraka::comm {

/// Takes over `group` (a communicator that nobody else uses); it is freed with the last reference, unless operations
/// were abandoned on it or MPI is finalised. Local.
OSTRAKA_API std::shared_ptr<Communicator> make_mpi_communicator(MPI_Comm group, std::string name);

/// Throws COMMUNICATION with MPI's text when `code` is an error of `operation`.
OSTRAKA_API void check_mpi(int code, const std::string& operation);

} // namespace ostraka::comm
