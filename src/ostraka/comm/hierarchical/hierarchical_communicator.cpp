// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/comm/hierarchical/hierarchical_communicator.hpp>
#include <ostraka/comm/hierarchical/impl/hierarchical_collective.hpp>

#include <optional>
#include <utility>

namespace ostraka::comm {

namespace {

class HierarchicalCommunicator final : public Communicator {
public:
  HierarchicalCommunicator(impl::LinePtr line, const std::string& name)
      : Communicator(name, line->all->rank, line->all->size), line_(std::move(line)) {}

  ~HierarchicalCommunicator() override {
    const bool was_usable = failure().empty();
    abandon(name() + ": destroyed with operations in flight");
    if (was_usable && !failure().empty())
      tell_peers(failure());
    impl::release(*line_->all, !failure().empty());
  }

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, const layout::Segments& pieces,
                                             DType dtype) override {
    return checked(impl::make_hierarchical_allgather(line_, std::move(in), std::move(out), pieces, dtype));
  }
  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                                                  layout::ReduceOp op) override {
    return checked(impl::make_hierarchical_reduce_scatter(line_, std::move(in), std::move(out), pieces, dtype, op));
  }
  std::unique_ptr<Collective> make_allreduce(Operand in, Operand out, std::int64_t count, DType dtype,
                                             layout::ReduceOp op) override {
    return checked(impl::make_hierarchical_allreduce(line_, std::move(in), std::move(out), count, dtype, op));
  }
  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) override {
    return checked(impl::make_hierarchical_broadcast(line_, std::move(data), bytes, root));
  }
  std::unique_ptr<Collective> make_exchange(Operand in, std::vector<Transfer> sends, Operand out,
                                            std::vector<Transfer> receives, DType dtype) override {
    return checked(impl::make_agreed(line_, impl::make_exchange(line_->all, std::move(in), std::move(sends),
                                                                std::move(out), std::move(receives), dtype)));
  }
  void tell_peers(const std::string& cause) noexcept override { line_->node->channel.fail_all(rank(), cause); }

private:
  std::unique_ptr<Collective> checked(std::unique_ptr<Collective> operation) const {
    return impl::make_checked(line_->all, std::move(operation));
  }

  impl::LinePtr line_;
};

} // namespace

std::shared_ptr<Communicator> make_hierarchical_communicator(MPI_Comm group, const std::string& name, NodeMap map,
                                                             std::shared_ptr<memory::Arena> arena,
                                                             const MpiSettings& settings) {
  const impl::GroupPtr all = impl::make_group(group, name, settings);
  const int node = map.node(all->rank);
  const std::span<const int> peers = map.ranks_of(node);
  MPI_Comm node_comm = MPI_COMM_NULL;
  check_mpi(MPI_Comm_split(group, node, all->rank, &node_comm), name + ": split");
  impl::NodeGroupPtr node_group;
  std::optional<Error> error;
  try {
    node_group = impl::make_node_group(node_comm, name, {peers.begin(), peers.end()}, std::move(arena));
  } catch (const Error& caught) { // of all ranks of this node, perhaps not of others
    error = caught;
  }
  MPI_Comm_free(&node_comm);
  try {
    node::agree_on_memory(group, error);
  } catch (...) {
    impl::release(*all, false);
    throw;
  }
  return std::make_shared<HierarchicalCommunicator>(
      std::make_shared<impl::Line>(impl::Line{all, std::move(node_group), std::move(map)}), name);
}

} // namespace ostraka::comm
