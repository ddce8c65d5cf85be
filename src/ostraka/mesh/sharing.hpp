// SPDX-License-Identifier: Apache-2.0
// What follows from which ranks share memory. Pure.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstdint>
#include <vector>

namespace ostraka::mesh {

/// What carries the operations of a group of ranks on hosts.
enum class Carrier : std::int32_t {
  self,         ///< one rank
  mpi,          ///< MPI alone
  node,         ///< memory that all of them share
  hierarchical, ///< that within nodes, MPI between them
};
OSTRAKA_API const char* name(Carrier carrier);

/// Of `size` ranks on `nodes` nodes; ranks that share memory with nobody are a node each.
OSTRAKA_API Carrier carrier_of(int size, int nodes, bool shares_nodes);

/// Whether the parts with these numbers, one of each rank of a node, are all of `count` parts.
OSTRAKA_API bool are_all_parts(std::vector<std::int64_t> parts, std::int64_t count);

} // namespace ostraka::mesh
