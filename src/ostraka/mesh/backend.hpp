// SPDX-License-Identifier: Apache-2.0
// Which back end a group of ranks gets, and the arenas that fit it.
#pragma once

#include <ostraka/base/environment.hpp>
#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/node.hpp>
#include <ostraka/memory/arena.hpp>

#include <memory>
#include <string>

namespace ostraka::mesh {

/// Equal on all ranks of a mesh.
struct Settings {
  comm::MpiSettings mpi;
  bool shares_nodes = false;                      ///< the node back end, where ranks share a node
  int ranks_per_node = 0;                         ///< of pretend nodes; 0: real ones
  runtime::Device device = runtime::Device::host; ///< of the memory
  bool stages = false;                            ///< memory of GPUs goes through hosts
  environment::NcclSplit split = environment::NcclSplit::own;

  /// What the environment says.
  static Settings from_environment();
  /// Equal for equal settings.
  std::int64_t hash() const;
};

/// The node of this rank, and an arena, which its ranks share if they share memory; one line in the log says where
/// /dev/shm is the reason why they do not. On GPUs the arena is this rank's, and NCCL is used unless the settings say
/// otherwise, the build has none or two ranks use one GPU, of which the log says which. Collective over `group`.
struct Home {
  std::shared_ptr<const comm::Node> node;
  std::shared_ptr<memory::Arena> arena;
  bool shares_memory = false;
  bool uses_nccl = false;                   ///< equal on all ranks
  std::shared_ptr<memory::Arena> scratch;   ///< with NCCL: of its communicators
  std::shared_ptr<memory::Arena> symmetric; ///< that NCCL registers; null on all ranks where one cannot use it
};
OSTRAKA_API Home make_home(MPI_Comm group, const Settings& settings);

/// A further arena. Collective over the node.
OSTRAKA_API std::shared_ptr<memory::Arena> make_arena(const Home& home);

/// The back end that fits: one rank, ranks of one node, of several nodes, or on a node of its own each; on GPUs one
/// rank, NCCL or staged transfers. Takes over `group`. Collective over `group`.
OSTRAKA_API std::shared_ptr<comm::Communicator> make_communicator(MPI_Comm group, const std::string& name,
                                                                  const Home& home, const Settings& settings);

/// The same for ranks of `whole`, which make_communicator made of all: those that pass the same `color`. With NCCL they
/// are split from it, unless the settings say otherwise. Collective over `whole`, whose ranks are in groups of one
/// size.
OSTRAKA_API std::shared_ptr<comm::Communicator> make_communicator(MPI_Comm group, const std::string& name,
                                                                  const Home& home, const Settings& settings,
                                                                  comm::Communicator& whole, int color);

} // namespace ostraka::mesh
