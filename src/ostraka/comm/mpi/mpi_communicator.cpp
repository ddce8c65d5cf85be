// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>

#include <utility>

namespace ostraka::comm {

void check_mpi(int code, const std::string& operation) {
  if (code == MPI_SUCCESS)
    return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail(Status::COMMUNICATION, operation, ": ", std::string(text, static_cast<std::size_t>(length)));
}

MpiSettings MpiSettings::from_environment() { return {environment::check(), environment::count_limit()}; }

namespace {

class MpiCommunicator final : public Communicator {
public:
  MpiCommunicator(impl::GroupPtr group, std::string name)
      : Communicator(std::move(name), group->rank, group->size), group_(std::move(group)) {}

  ~MpiCommunicator() override {
    abandon(name() + ": destroyed with operations in flight"); // their memory must outlive them
    impl::release(*group_, !failure().empty());
  }

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, const layout::Segments& pieces,
                                             DType dtype) override {
    return checked(impl::make_allgather(group_, std::move(in), std::move(out), pieces, dtype));
  }
  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, const layout::Segments& pieces, DType dtype,
                                                  layout::ReduceOp op) override {
    if (impl::is_native(dtype, op) && pieces.size() <= group_->settings.count_limit)
      return checked(impl::make_native_reduce_scatter(group_, std::move(in), std::move(out), pieces, dtype, op));
    return checked(impl::make_exchange_reduce(group_, std::move(in), std::move(out), pieces, dtype, op, false));
  }
  std::unique_ptr<Collective> make_allreduce(Operand in, Operand out, std::int64_t count, DType dtype,
                                             layout::ReduceOp op) override {
    if (impl::is_native(dtype, op))
      return checked(impl::make_native_allreduce(group_, std::move(in), std::move(out), count, dtype, op));
    return checked(impl::make_exchange_reduce(group_, std::move(in), std::move(out),
                                              layout::Segments::even(size(), count), dtype, op, true));
  }
  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) override {
    return checked(impl::make_broadcast(group_, std::move(data), bytes, root));
  }
  std::unique_ptr<Collective> make_exchange(Operand in, std::vector<Transfer> sends, Operand out,
                                            std::vector<Transfer> receives, DType dtype) override {
    return checked(
        impl::make_exchange(group_, std::move(in), std::move(sends), std::move(out), std::move(receives), dtype));
  }

private:
  std::unique_ptr<Collective> checked(std::unique_ptr<Collective> operation) const {
    return impl::make_checked(group_, std::move(operation));
  }

  impl::GroupPtr group_;
};

} // namespace

namespace impl {

GroupPtr make_group(MPI_Comm comm, const std::string& name, const MpiSettings& settings) {
  constexpr int largest = std::numeric_limits<int>::max();
  expect(settings.count_limit >= 1 && settings.count_limit <= largest, Status::INVALID_ARGUMENT, "communicator ", name,
         ": expected a count limit from 1 to ", largest, ", found ", settings.count_limit);
  check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "communicator " + name);
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(comm, &rank), "communicator " + name);
  check_mpi(MPI_Comm_size(comm, &size), "communicator " + name);
  return std::make_shared<Group>(Group{comm, rank, size, name, settings, {}});
}

void release(Group& group, bool has_failed) {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0 && !has_failed)
    MPI_Comm_free(&group.comm);
}

} // namespace impl

std::shared_ptr<Communicator> make_mpi_communicator(MPI_Comm group, std::string name, MpiSettings settings) {
  return std::make_shared<MpiCommunicator>(impl::make_group(group, name, settings), std::move(name));
}

} // namespace ostraka::comm
