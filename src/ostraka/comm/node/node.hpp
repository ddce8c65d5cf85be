// SPDX-License-Identifier: Apache-2.0
// Which ranks share memory.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/comm/node/node_map.hpp>

#include <mpi.h>

#include <cstdint>
#include <memory>

namespace ostraka::comm {

/// The ranks of a group that stand on one node, or on one of the pretend nodes that OSTRAKA_RANKS_PER_NODE asks for.
class OSTRAKA_API Node {
public:
  /// The node of this rank of `group`, cut into pieces of `ranks_per_node` consecutive ranks unless that is 0.
  /// Collective over `group`.
  Node(MPI_Comm group, int ranks_per_node);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Its ranks, in the order of the group; for set-up only.
  MPI_Comm ranks() const { return ranks_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// A number that only the ranks of this node have.
  int id() const { return id_; }

private:
  MPI_Comm ranks_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  int id_ = 0;
};

/// Which ranks of `line` share a node; `node` is null where this rank shares memory with nobody. Collective over
/// `line`.
OSTRAKA_API NodeMap map_nodes(MPI_Comm line, const Node* node);

/// Bytes of the last-level caches of this machine together.
OSTRAKA_API std::int64_t last_level_cache_bytes();

} // namespace ostraka::comm
