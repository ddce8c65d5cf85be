// SPDX-License-Identifier: Apache-2.0
// What the operations of a line over several nodes share: published and compared within the node as those of one node
// are, then messages between nodes, which land where the ranks of the node see it.
#pragma once

#include <ostraka/comm/hierarchical/shares.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>
#include <ostraka/comm/node/impl/node_collective.hpp>

#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace ostraka::comm::impl {

/// Shared by a communicator and its operations, which may outlive it.
struct Line {
  GroupPtr all;      ///< the ranks of the line
  NodeGroupPtr node; ///< those of this node
  NodeMap map;

  int rank() const { return all->rank; }
  int own_node() const { return map.node(all->rank); }
  /// The ranks of this node.
  std::span<const int> peers() const { return map.ranks_of(own_node()); }
};
using LinePtr = std::shared_ptr<Line>;

/// Its rank() and size() are those within the node.
class HierarchicalCollective : public NodeCollective {
protected:
  explicit HierarchicalCollective(LinePtr line) : NodeCollective(line->node), line_(std::move(line)) {}

  /// The operands of all ranks of the node that they show; `own` is that of this rank.
  std::vector<const std::byte*> inputs(const std::byte* own) const;

  /// Decides where what this rank fetches for its node lands, for prepare(): in `out` where the peers see it, else in
  /// `packed` bytes that they do.
  void choose_landing(std::byte* out, std::int64_t packed);
  /// The landing place of rank `local` of the node for what belongs `offset` bytes behind the begin of `out`, and
  /// `position` bytes behind the begin of what is packed.
  std::byte* landing(int local, std::int64_t offset, std::int64_t position) const;
  /// Whether this rank has to copy from its own landing place, too.
  bool lands_elsewhere() const { return notice_.is_packed; }

  /// Says that everything is there.
  void land() { group_->channel.land(description.sequence); }
  bool all_landed() const { return group_->channel.all_landed(description.sequence); }

  LinePtr line_;

private:
  std::byte* landing_ = nullptr; ///< of this rank
};

std::unique_ptr<Collective> make_hierarchical_allgather(LinePtr line, Operand in, Operand out,
                                                        const layout::Segments& pieces, DType dtype);
std::unique_ptr<Collective> make_hierarchical_reduce_scatter(LinePtr line, Operand in, Operand out,
                                                             const layout::Segments& pieces, DType dtype,
                                                             layout::ReduceOp op);
std::unique_ptr<Collective> make_hierarchical_allreduce(LinePtr line, Operand in, Operand out, std::int64_t count,
                                                        DType dtype, layout::ReduceOp op);
std::unique_ptr<Collective> make_hierarchical_broadcast(LinePtr line, Operand data, std::int64_t bytes, int root);
/// `operation` on the line's MPI group, once the ranks of the node agree.
std::unique_ptr<Collective> make_agreed(LinePtr line, std::unique_ptr<Collective> operation);

} // namespace ostraka::comm::impl
