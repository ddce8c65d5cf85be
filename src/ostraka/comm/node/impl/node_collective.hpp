// SPDX-License-Identifier: Apache-2.0
// What the operations of ranks of a node share: publish, wait for all, work, say so, wait for all.
#pragma once

#include <ostraka/base/inline_vector.hpp>
#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/node/channel.hpp>
#include <ostraka/comm/node/node_arena.hpp>
#include <ostraka/comm/node/segment.hpp>
#include <ostraka/comm/node/shared_memory.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::comm::impl {

/// Shared by a communicator and its operations, which may outlive it.
struct NodeGroup {
  std::string name;
  std::shared_ptr<const void> memory; ///< of the channel
  std::vector<std::uint64_t> tokens;  ///< [rank]
  std::vector<int> numbers;           ///< [rank], of the ranks in messages
  node::Channel channel;
  std::shared_ptr<memory::Arena> arena; ///< a node arena, for copies of memory that peers do not see

  /// The address in this process of what `rank` published for operation `sequence`.
  std::byte* address(int rank, std::int64_t sequence, const node::Location& location) const {
    if (location.arena == 0)
      return channel.inline_data(rank, sequence);
    return node::resolve(tokens[static_cast<std::size_t>(rank)], location);
  }
};
using NodeGroupPtr = std::shared_ptr<NodeGroup>;

/// The ranks of `group`, which share a node and which messages call by `numbers`; `group` is used to set up only, and
/// `arena` is not used where it has one rank. Collective. Throws OUT_OF_MEMORY on all ranks.
NodeGroupPtr make_node_group(MPI_Comm group, const std::string& name, std::vector<int> numbers,
                             std::shared_ptr<memory::Arena> arena);

class NodeCollective : public Collective {
public:
  void start() final;
  bool test() final;
  bool will_start_again() const final { return !is_published_ || (!is_finished_ && will_send_again()); }

protected:
  explicit NodeCollective(NodeGroupPtr group) : group_(std::move(group)) {}

  /// Says what peers may read and write: calls show() and fills the notice.
  virtual void prepare() = 0;
  /// The work of this rank, once all have published: called until it returns true.
  virtual bool work() = 0;
  /// Whether work() will send messages that must not change their order with those of later operations.
  virtual bool will_send_again() const { return false; }
  /// After all have finished.
  virtual void conclude() {}

  /// Where peers find `bytes` bytes at `data`; memory that they do not see is copied to where they do.
  node::Location show(const std::byte* data, std::int64_t bytes);
  /// A place for `bytes` > 0 bytes that peers see, until all have finished. One of an operation may get the channel's
  /// own room.
  node::Location room(std::int64_t bytes);
  /// Says that results go to `out`. Where the node has one copy of that, each rank writes only what it brings there.
  void write_to(const std::byte* out) {
    const auto offset = SharedMemory::offset_of(out);
    notice_.is_written_once = offset.has_value();
    notice_.shared_offset = offset.value_or(0);
  }
  bool is_written_once() const { return notice_.is_written_once; }
  /// The address of what show() or room() returned.
  std::byte* shown(const node::Location& location) const {
    return group_->address(rank(), description.sequence, location);
  }
  std::byte* data_of(int rank) const { return at(rank, group_->channel.notice(rank, description.sequence).data); }
  std::byte* out_of(int rank) const { return at(rank, group_->channel.notice(rank, description.sequence).out); }
  std::byte* at(int rank, const node::Location& location) const {
    return group_->address(rank, description.sequence, location);
  }
  int rank() const { return group_->channel.rank(); }
  int size() const { return group_->channel.size(); }

  NodeGroupPtr group_;
  node::Notice notice_;

private:
  void publish();
  void compare() const;
  template <class Condition>
  bool holds_soon(Condition&& condition);

  static constexpr int most_looks = 128;

  InlineVector<std::shared_ptr<memory::Storage>, 2> rooms_; ///< an operation needs no more
  int looks_ = most_looks;
  bool has_inline_ = false;
  bool is_published_ = false;
  bool is_compared_ = false;
  bool is_finished_ = false;
};

std::unique_ptr<Collective> make_node_allgather(NodeGroupPtr group, Operand in, Operand out,
                                                const layout::Segments& pieces, DType dtype);
std::unique_ptr<Collective> make_node_reduce_scatter(NodeGroupPtr group, Operand in, Operand out,
                                                     const layout::Segments& pieces, DType dtype, layout::ReduceOp op,
                                                     Consumer consumer = nullptr);
std::unique_ptr<Collective> make_node_allreduce(NodeGroupPtr group, Operand in, Operand out, std::int64_t count,
                                                DType dtype, layout::ReduceOp op);
std::unique_ptr<Collective> make_node_broadcast(NodeGroupPtr group, Operand data, std::int64_t bytes, int root);
std::unique_ptr<Collective> make_node_exchange(NodeGroupPtr group, Operand in, std::vector<Transfer> sends, Operand out,
                                               std::vector<Transfer> receives, DType dtype);

} // namespace ostraka::comm::impl
