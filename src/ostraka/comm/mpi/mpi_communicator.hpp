// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/communicator.hpp>

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>

namespace ostraka::comm {

/// Equal on all ranks of a group.
struct MpiSettings {
  bool checks = false; ///< compare every operation between the ranks before it starts
  /// Elements that a count or a displacement of one MPI call may reach: from 1 to what an int holds.
  std::int64_t count_limit = std::numeric_limits<int>::max();

  /// What OSTRAKA_CHECK and OSTRAKA_COUNT_LIMIT say.
  static MpiSettings from_environment();
};

/// Takes over `group` (a communicator that nobody else uses); it is freed with the last reference, unless operations
/// were abandoned on it or MPI is finalised. Local. Throws INVALID_ARGUMENT for a limit out of range.
OSTRAKA_API std::shared_ptr<Communicator> make_mpi_communicator(MPI_Comm group, std::string name,
                                                                MpiSettings settings = MpiSettings::from_environment());

/// Throws COMMUNICATION with MPI's text when `code` is an error of `operation`.
OSTRAKA_API void check_mpi(int code, const std::string& operation);

} // namespace ostraka::comm
