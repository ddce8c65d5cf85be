// SPDX-License-Identifier: Apache-2.0
// Collectives of ranks that share a node: at memory speed, without messages.
#pragma once

#include <ostraka/comm/communicator.hpp>
#include <ostraka/memory/arena.hpp>

#include <mpi.h>

#include <memory>
#include <string>

namespace ostraka::comm {

/// The ranks of `group` share a node; `arena` is a node arena of a group that contains them, used for copies of memory
/// that peers do not see. `group` is used to set up only. Collective. Throws OUT_OF_MEMORY on all ranks.
OSTRAKA_API std::shared_ptr<Communicator> make_node_communicator(MPI_Comm group, const std::string& name,
                                                                 std::shared_ptr<memory::Arena> arena);

} // namespace ostraka::comm
