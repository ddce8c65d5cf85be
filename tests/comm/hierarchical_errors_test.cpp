// SPDX-License-Identifier: Apache-2.0
// Lines over several nodes where something goes wrong: the ranks of a node hear of it, the others end with an error or
// a time-out. The last two ranks share a node, and so do the rest.
#include "oracle.hpp"
#include "support/mpi_calls.hpp"
#include "support/scoped_environment.hpp"

#include <functional>

namespace ostraka::comm::test {
namespace {

class HierarchicalErrors : public testing::Test {
protected:
  void SetUp() override {
    if (ranks < 3)
      GTEST_SKIP() << "needs two nodes, one of them with two ranks";
  }
  void TearDown() override {
    mpi_calls = {};
    MPI_Barrier(MPI_COMM_WORLD);
  }

  static std::shared_ptr<Communicator> make_line() {
    return hierarchical_group("line", nodes_by([](int r) { return r >= ranks - 2 ? 1 : 0; }));
  }

  const bool is_on_last_node_ = rank >= ranks - 2;
  const ScopedEnvironment limit_{"OSTRAKA_TIMEOUT_S", "0.4"};
  std::shared_ptr<runtime::Stream> stream_ = runtime::make_host_compute_stream();
  Operand data_ = operand(8, 1, DType::f64);
};

Name named(const char* text) { return std::make_shared<const std::string>(text); }

TEST_F(HierarchicalErrors, ADifferentOrderOnANode) {
  const auto line = make_line();
  const Name name = named(rank == ranks - 1 ? "B" : "A");
  const auto reduce = [&] { line->allreduce(*stream_, data_, 8, DType::f64, ReduceOp::sum, name); };
  if (is_on_last_node_)
    expect_error(Status::RANKS_DISAGREE, reduce,
                 {"operation 0", "line", "rank " + std::to_string(ranks - 2) + " called allreduce of 8 f64 of 'A'",
                  "rank " + std::to_string(ranks - 1) + " called allreduce of 8 f64 of 'B'"});
  else
    expect_error(Status::TIME_OUT, reduce, {"line", "allreduce of 8 f64 of 'A'"});
  EXPECT_EQ(values(data_, 8, DType::f64), std::vector<double>(8, 1));
  expect_error(Status::FAILED, reduce, {"failed earlier"});
}

// An exchange is compared, too, although its messages go straight through MPI.
TEST_F(HierarchicalErrors, AnExchangeAgainstAnotherOperation) {
  const auto line = make_line();
  const Operand out = operand(8, -1, DType::f64);
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  const auto call = [&] {
    if (rank == ranks - 1)
      line->allreduce(*stream_, data_, 8, DType::f64, ReduceOp::sum);
    else
      line->exchange(*stream_, data_, {{next, 0, 8}}, out, {{before, 0, 8}}, DType::f64, 0);
  };
  if (is_on_last_node_)
    expect_error(Status::RANKS_DISAGREE, call, {"exchange of 8 f64", "allreduce of 8 f64"});
  else
    expect_error(Status::TIME_OUT, call, {"exchange of 8 f64"});
}

TEST_F(HierarchicalErrors, WhoGivesUpTellsItsNode) {
  auto line = make_line();
  if (rank == ranks - 1) {
    const auto queue = runtime::make_host_queue("queue");
    line->allreduce(*queue, data_, 8, DType::f64, ReduceOp::sum);
    line.reset();
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto reduce = [&] { line->allreduce(*stream_, data_, 8, DType::f64, ReduceOp::sum); };
  if (is_on_last_node_)
    expect_error(Status::FAILED, reduce, {"rank " + std::to_string(ranks - 1) + " of the group gave up"});
  else
    expect_error(Status::TIME_OUT, reduce, {"allreduce of 8 f64"});
}

TEST_F(HierarchicalErrors, ARankThatDoesNotArrive) {
  const auto line = make_line();
  if (rank != 0)
    expect_error(Status::TIME_OUT, [&] { line->allreduce(*stream_, data_, 8, DType::f64, ReduceOp::sum); },
                 {"line", "allreduce of 8 f64", "started"});
}

/// The status that an operation ends with.
Status end_of(const std::function<void()>& run) {
  try {
    run();
    return Status::OK;
  } catch (const Error& error) {
    return error.status();
  }
}

TEST_F(HierarchicalErrors, AMessageThatCannotBeSent) {
  const auto line = make_line();
  if (rank == ranks - 1)
    mpi_calls.failing = "MPI_Isend";
  const Status end = end_of([&] { line->allreduce(*stream_, data_, 8, DType::f64, ReduceOp::sum); });
  if (rank == ranks - 1)
    EXPECT_EQ(end, Status::COMMUNICATION);
  else if (is_on_last_node_)
    EXPECT_EQ(end, Status::FAILED);
  else
    EXPECT_EQ(end, Status::TIME_OUT);
}

// Nothing is compared between nodes without OSTRAKA_CHECK=1. All ranks end, none of them with wrong numbers unnoticed.
TEST_F(HierarchicalErrors, OtherSizesOnAnotherNode) {
  using Run = std::function<void(Communicator&, const Operand&, const Operand&, std::int64_t)>;
  const std::pair<const char*, Run> cases[] = {
      {"allreduce", [&](Communicator& line, const Operand& in, const Operand&,
                        std::int64_t size) { line.allreduce(*stream_, in, size, DType::f64, ReduceOp::sum); }},
      {"allgather",
       [&](Communicator& line, const Operand& in, const Operand& out, std::int64_t size) {
         line.allgather(*stream_, in, out, Segments::equal(ranks, size), DType::f64);
       }},
      {"reduce-scatter",
       [&](Communicator& line, const Operand& in, const Operand& out, std::int64_t size) {
         line.reduce_scatter(*stream_, in, out, Segments::equal(ranks, size), DType::bf16, ReduceOp::sum);
       }},
      {"broadcast", [&](Communicator& line, const Operand& in, const Operand&, std::int64_t size) {
         line.broadcast(*stream_, in, size, 0);
       }}};
  for (const auto& [operation, run] : cases)
    for (const std::int64_t other : {4, 16}) {
      SCOPED_TRACE(std::string(operation) + ", " + std::to_string(other));
      const auto line = make_line();
      const Operand in = operand(20 * ranks, rank, DType::f64), out = operand(20 * ranks, -1, DType::f64);
      int succeeded = 0;
      const Status end = end_of([&, &call = run] { call(*line, in, out, is_on_last_node_ ? other : 8); });
      EXPECT_TRUE(end == Status::OK || end == Status::COMMUNICATION || end == Status::RANKS_DISAGREE ||
                  end == Status::TIME_OUT || end == Status::FAILED)
          << name(end);
      succeeded = end == Status::OK ? 1 : 0;
      MPI_Allreduce(MPI_IN_PLACE, &succeeded, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      EXPECT_LT(succeeded, ranks);
    }
}

} // namespace
} // namespace ostraka::comm::test
