// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <vector>

namespace ostraka::comm::node {

/// A number that tells the processes of a node apart, across containers too.
std::uint64_t process_token();

/// Those of all ranks. Collective.
std::vector<std::uint64_t> gather_tokens(MPI_Comm group);

} // namespace ostraka::comm::node
