// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/node/impl/node_collective.hpp>
#include <ostraka/comm/node/node_communicator.hpp>
#include <ostraka/comm/node/process.hpp>
#include <ostraka/comm/node/segment.hpp>

#include <cstring>
#include <new>
#include <numeric>
#include <utility>

namespace ostraka::comm {

namespace {

class NodeCommunicator final : public Communicator {
public:
  NodeCommunicator(impl::NodeGroupPtr group, std::string name)
      : Communicator(std::move(name), group->channel.rank(), group->channel.size()), group_(std::move(group)) {}

  ~NodeCommunicator() override {
    const bool was_usable = failure().empty();
    abandon(name() + ": destroyed with operations in flight");
    if (was_usable && !failure().empty())
      group_->channel.fail_all(rank(), failure());
  }

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, const layout::Segments& pieces,
                                             DType dtype) override {
    return impl::make_node_allgather(group_, std::move(in), std::move(out), pieces, dtype);
  }
  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                                                  layout::ReduceOp op) override {
    return impl::make_node_reduce_scatter(group_, std::move(in), std::move(out), pieces, dtype, op);
  }
  std::unique_ptr<Collective> make_consumed_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces,
                                                           DType dtype, layout::ReduceOp op,
                                                           Consumer consumer) override {
    return impl::make_node_reduce_scatter(group_, std::move(in), std::move(out), pieces, dtype, op,
                                          std::move(consumer));
  }
  std::unique_ptr<Collective> make_allreduce(Operand in, Operand out, std::int64_t count, DType dtype,
                                             layout::ReduceOp op) override {
    return impl::make_node_allreduce(group_, std::move(in), std::move(out), count, dtype, op);
  }
  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) override {
    return impl::make_node_broadcast(group_, std::move(data), bytes, root);
  }
  std::unique_ptr<Collective> make_exchange(Operand in, std::vector<Transfer> sends, Operand out,
                                            std::vector<Transfer> receives, DType dtype) override {
    return impl::make_node_exchange(group_, std::move(in), std::move(sends), std::move(out), std::move(receives),
                                    dtype);
  }
  void tell_peers(const std::string& cause) noexcept override { group_->channel.fail_all(rank(), cause); }

private:
  impl::NodeGroupPtr group_;
};

// Zeros are a valid beginning of a channel: nothing published, nothing failed.
std::shared_ptr<std::byte> channel_memory(MPI_Comm group, int size) {
  const std::int64_t bytes = node::Channel::bytes(size);
  if (size == 1) { // nobody sees it, and /dev/shm may be of no use
    constexpr std::align_val_t alignment{128};
    const std::shared_ptr<std::byte> memory(static_cast<std::byte*>(operator new(bytes, alignment)),
                                            [](std::byte* begin) { operator delete(begin, alignment); });
    std::memset(memory.get(), 0, static_cast<std::size_t>(bytes));
    return memory;
  }
  const auto segment = std::make_shared<node::Segment>(node::share_one(group, bytes, bytes));
  segment->close_file();
  return {segment, segment->data()};
}

} // namespace

namespace impl {

NodeGroupPtr make_node_group(MPI_Comm group, const std::string& name, std::vector<int> numbers,
                             std::shared_ptr<memory::Arena> arena) {
  int rank = 0, size = 0;
  MPI_Comm_rank(group, &rank);
  MPI_Comm_size(group, &size);
  std::vector<std::uint64_t> tokens = node::gather_tokens(group);
  const std::shared_ptr<std::byte> memory = channel_memory(group, size);
  return std::make_shared<NodeGroup>(NodeGroup{name, memory, std::move(tokens), std::move(numbers),
                                               node::Channel(memory.get(), rank, size), std::move(arena)});
}

} // namespace impl

std::shared_ptr<Communicator> make_node_communicator(MPI_Comm group, const std::string& name,
                                                     std::shared_ptr<memory::Arena> arena) {
  int size = 0;
  MPI_Comm_size(group, &size);
  std::vector<int> numbers(static_cast<std::size_t>(size));
  std::iota(numbers.begin(), numbers.end(), 0);
  return std::make_shared<NodeCommunicator>(impl::make_node_group(group, name, std::move(numbers), std::move(arena)),
                                            name);
}

} // namespace ostraka::comm
