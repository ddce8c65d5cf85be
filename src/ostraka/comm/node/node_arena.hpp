// SPDX-License-Identifier: Apache-2.0
// Arenas whose memory all ranks of a node see. Every rank allocates from a file of its own; peers find a block by the
// arena's number and its offset in the owner's file.
#pragma once

#include <ostraka/comm/node/location.hpp>
#include <ostraka/memory/arena.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace ostraka::comm::node {

/// Collective over `node`, whose ranks share memory. Throws OUT_OF_MEMORY on all ranks.
std::shared_ptr<memory::Arena> make_node_arena(MPI_Comm node);

/// Where `address` stands in this process's own part of a node arena; nothing when it is other memory.
std::optional<Location> locate(const void* address);

/// The address in this process of what the process with `token` calls `location`. Throws INTERNAL for an arena that
/// does not exist.
std::byte* resolve(std::uint64_t token, const Location& location);

} // namespace ostraka::comm::node
