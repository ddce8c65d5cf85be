// SPDX-License-Identifier: Apache-2.0
// Collectives of a line of ranks over several nodes: at memory speed within a node, and each byte crosses between nodes
// once.
#pragma once

#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/node_map.hpp>
#include <ostraka/memory/arena.hpp>

#include <mpi.h>

#include <memory>
#include <string>

namespace ostraka::comm {

/// `map` says which ranks of `group` share a node, and `arena` is a node arena of a group that contains those of this
/// one, used for copies of memory that peers do not see; any where a rank has its node for itself. Takes over `group`,
/// as make_mpi_communicator() does. Collective. Throws OUT_OF_MEMORY where /dev/shm is full, on all ranks.
OSTRAKA_API std::shared_ptr<Communicator> make_hierarchical_communicator(MPI_Comm group, const std::string& name,
                                                                         NodeMap map,
                                                                         std::shared_ptr<memory::Arena> arena,
                                                                         const MpiSettings& settings);

} // namespace ostraka::comm
