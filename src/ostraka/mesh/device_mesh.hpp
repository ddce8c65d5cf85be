// SPDX-License-Identifier: Apache-2.0
// The ranks of an MPI communicator arranged on named axes, outer axis first. Rank numbers have the last axis fastest.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/node/shared_memory.hpp>
#include <ostraka/layout/global_layout.hpp>
#include <ostraka/memory/arena.hpp>
#include <ostraka/memory/scratch.hpp>
#include <ostraka/mesh/backend.hpp>

#include <mpi.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::mesh {

/// Communicators of one owner (a mesh, a context): one for all ranks and, per axis, one for gathers and another for
/// reductions, so that the two never wait for each other.
struct Communicators {
  std::shared_ptr<comm::Communicator> all; ///< of memory of the host, whatever the device: what ranks agree on
  /// All ranks, for memory of the mesh's device; on hosts `all`.
  std::shared_ptr<comm::Communicator> data;
  std::vector<std::shared_ptr<comm::Communicator>> gather; ///< [axis]
  std::vector<std::shared_ptr<comm::Communicator>> reduce; ///< [axis]
  /// What reductions over several axes use between them.
  std::shared_ptr<memory::Scratch> scratch = std::make_shared<memory::Scratch>();

  /// Why some of them cannot be used any more, once each.
  std::vector<std::string> failures() const;
  /// Whether one of them cannot be used any more.
  bool have_failed() const;
};

/// Throws INVALID_STATE naming `operation` unless MPI is initialised and not finalised.
OSTRAKA_API void require_mpi(const char* operation);

class OSTRAKA_API DeviceMesh {
public:
  /// Arranges the ranks of `group`, which is duplicated. Collective over `group`. `sizes` >= 1 with the size of `group`
  /// as product; `names` distinct, or empty for axis0, axis1, ...
  /// Throws INVALID_STATE (MPI or library not initialised), INVALID_ARGUMENT (MPI_COMM_NULL, sizes, names) and
  /// RANKS_DISAGREE (different sizes or names), always on all ranks.
  /// `device` is where the memory of what is created on it lies: without it, where OSTRAKA_DEVICE says. NOT_SUPPORTED
  /// where a rank has no such device. COMMUNICATION (MPI, NCCL), TIME_OUT (a rank does not come) and OUT_OF_MEMORY
  /// leave nothing behind on this rank.
  static std::shared_ptr<const DeviceMesh> create(MPI_Comm group, std::vector<int> sizes,
                                                  std::vector<std::string> names = {},
                                                  std::optional<runtime::Device> device = {});

  /// One axis with all ranks of `group`; `names` is empty or has one name. As create.
  static std::shared_ptr<const DeviceMesh> create_line(MPI_Comm group, std::vector<std::string> names = {},
                                                       std::optional<runtime::Device> device = {});

  ~DeviceMesh();
  DeviceMesh(const DeviceMesh&) = delete;
  DeviceMesh& operator=(const DeviceMesh&) = delete;

  /// Whether the ranks of `other` are the same processes in the same order. Local.
  bool is_congruent(const DeviceMesh& other) const;

  /// Of the memory of what is created on it; equal on all ranks.
  runtime::Device device() const { return settings_.device; }
  int dims() const { return static_cast<int>(sizes_.size()); }
  int size() const { return size_; }
  int rank() const { return rank_; }
  /// Throw INVALID_ARGUMENT for an axis or name that does not exist.
  int axis(const std::string& name) const;
  int axis_size(int axis) const;
  int coordinate(int axis) const;
  /// A number that only the ranks on this rank's node, real or pretend, have.
  int node() const { return home_.node->id(); }
  /// Ranks of the mesh on that node.
  int node_size() const { return home_.node->size(); }
  const std::string& axis_name(int axis) const;
  layout::MeshPosition position() const { return {sizes_, coordinates_}; }

  /// The mesh's own communicators, used by operations that name none, and the arena of what is created on it.
  const Communicators& communicators() const { return communicators_; }
  const std::shared_ptr<memory::Arena>& arena() const { return home_.arena; }
  /// The arena of what is to be registered with communicators (Communicator::rendezvous); arena() where nothing can be:
  /// on hosts, with staged transfers, with NCCL before 2.30.7 on one rank.
  const std::shared_ptr<memory::Arena>& symmetric_arena() const { return home_.symmetric ? home_.symmetric : arena(); }

  /// New communicators for `owner`, whose name shows in messages. Collective over the mesh.
  Communicators make_communicators(const std::string& owner) const;

  /// A new arena that fits the communicators. Collective over the mesh.
  std::shared_ptr<memory::Arena> make_arena() const { return mesh::make_arena(home_); }
  /// Whether ranks are compared and mistakes looked for (OSTRAKA_CHECK=1, when the mesh was made); equal on all ranks.
  bool checks() const { return settings_.mpi.checks; }
  /// Whether some ranks share memory; equal on all ranks.
  bool shares_nodes() const { return shares_nodes_; }
  /// Whether on every node the ranks that share memory, each rank alone where they do not, together hold all parts that
  /// `placements` make of a buffer. Collective over the mesh.
  bool nodes_hold_all_parts(const layout::Placements& placements) const;
  /// New memory that the ranks of this node share, or those of them on one line of `axis`; null for a rank that shares
  /// none. Collective over the mesh.
  std::shared_ptr<comm::SharedMemory> make_shared_memory() const;
  std::shared_ptr<comm::SharedMemory> make_shared_memory(int axis) const;

private:
  DeviceMesh(MPI_Comm group, std::vector<int> sizes, std::vector<std::string> names, Settings settings);
  void connect();
  void require_axis(int axis) const;
  int line(int axis) const;
  std::string describe() const;

  MPI_Comm group_;
  int rank_ = 0;
  int size_ = 1;
  std::vector<int> sizes_;
  std::vector<int> coordinates_;
  std::vector<std::string> names_;
  Settings settings_; ///< of all communicators made here
  Home home_;
  bool shares_nodes_ = false;
  Communicators communicators_;
};

} // namespace ostraka::mesh
