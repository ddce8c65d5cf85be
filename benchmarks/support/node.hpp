// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/base/environment.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/comm/node/node.hpp>
#include <ostraka/comm/node/node_arena.hpp>

namespace ostraka::bench {

/// Whether node memory carries what the mesh does, which is not always what was asked for: /dev/shm may be too small,
/// nodes may be pretended. Collective over MPI_COMM_WORLD.
inline bool is_on_one_node(const buffer::MeshPtr& mesh) {
  const memory::Storage probe(mesh->arena(), 64, memory::Kind::other);
  const comm::Node node(MPI_COMM_WORLD, environment::ranks_per_node());
  return comm::node::locate(probe.data()) && node.size() == mesh->size();
}

} // namespace ostraka::bench
