// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/comm/mpi/impl/mpi_collectives.hpp>
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

namespace {

bool is_16_bit(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16; }

class MpiCommunicator final : public Communicator {
public:
  MpiCommunicator(MPI_Comm group, std::string name, int rank, int size)
      : Communicator(std::move(name), rank, size), group_(group) {}

  ~MpiCommunicator() override {
    abandon(name() + ": destroyed with operations in flight"); // their memory must outlive them
    int finalized = 0;
    MPI_Finalized(&finalized);
    if (finalized == 0 && !has_failed()) // a failed group may have requests in flight
      MPI_Comm_free(&group_);
  }

protected:
  std::unique_ptr<Collective> make_allgather(Operand in, Operand out, std::int64_t count, DType dtype) override {
    return std::make_unique<impl::AllGather>(group_, std::move(in), std::move(out), count, dtype);
  }
  std::unique_ptr<Collective> make_reduce_scatter(Operand in, Operand out, std::int64_t count, DType dtype,
                                                  Reduction reduction) override {
    if (is_16_bit(dtype))
      return std::make_unique<impl::Sum16>(group_, std::move(in), std::move(out),
                                           multiply(count, size(), "reduce-scatter: count"), reduction, false,
                                           scratch_);
    return std::make_unique<impl::ReduceScatter>(group_, std::move(in), std::move(out), count, dtype, reduction,
                                                 scratch_);
  }
  std::unique_ptr<Collective> make_allreduce(Operand data, std::int64_t count, DType dtype,
                                             Reduction reduction) override {
    if (is_16_bit(dtype))
      return std::make_unique<impl::Sum16>(group_, data, data, count, reduction, true, scratch_);
    return std::make_unique<impl::AllReduce>(group_, std::move(data), count, dtype, reduction);
  }
  std::unique_ptr<Collective> make_broadcast(Operand data, std::int64_t bytes, int root) override {
    return std::make_unique<impl::Broadcast>(group_, std::move(data), bytes, root);
  }

private:
  MPI_Comm group_;
  impl::SharedScratch scratch_ = std::make_shared<impl::ScratchPool>();
};

} // namespace

std::shared_ptr<Communicator> make_mpi_communicator(MPI_Comm group, std::string name) {
  check_mpi(MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN), "communicator " + name);
  int rank = 0, size = 0;
  check_mpi(MPI_Comm_rank(group, &rank), "communicator " + name);
  check_mpi(MPI_Comm_size(group, &size), "communicator " + name);
  return std::make_shared<MpiCommunicator>(group, std::move(name), rank, size);
}

} // namespace ostraka::comm
