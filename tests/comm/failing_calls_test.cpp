// SPDX-License-Identifier: Apache-2.0
// MPI calls that return an error, at once or in the middle of an operation, on all ranks alike.
#include "support/mpi_calls.hpp"
#include "oracle.hpp"

#include <functional>

namespace ostraka::comm::test {
namespace {

struct Case {
  const char* call;
  int after; ///< so many of them succeed
  std::string operation;
  std::function<void(Communicator&, runtime::Stream&, const Operand& in, const Operand& out)> run;
  bool has_others_in_flight = false; ///< calls that succeeded may still write
};

std::vector<Case> all_cases() {
  const Segments equal = Segments::equal(ranks, 3), ragged = pieces_by([](int k) { return k == 0 ? 0 : 2; });
  const auto allreduce = [](std::int64_t count, DType dtype) {
    return [=](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand&) {
      group.allreduce(stream, in, count, dtype, ReduceOp::sum);
    };
  };
  const auto allgather = [](const Segments& pieces) {
    return [=](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand& out) {
      group.allgather(stream, in, out, pieces, DType::f64);
    };
  };
  const auto reduce_scatter = [](const Segments& pieces, DType dtype) {
    return [=](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand& out) {
      group.reduce_scatter(stream, in, out, pieces, dtype, ReduceOp::sum);
    };
  };
  const auto broadcast = [](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand&) {
    group.broadcast(stream, in, 40, 0);
  };
  const auto exchange = [](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand& out) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    group.exchange(stream, in, {{next, 0, 1}, {next, 2, 1}}, out, {{before, 4, 1}, {before, 6, 1}}, DType::f64, 0);
  };
  const std::string gathered = "allgather of " + std::to_string(ragged.size()) + " f64";
  const std::string scattered = "reduce-scatter of " + std::to_string(3 * ranks);
  return {
      {"MPI_Iallreduce", 0, "allreduce of 20 f64", allreduce(20, DType::f64)},
      {"MPI_Iallreduce", 1, "allreduce of 40 f64", allreduce(40, DType::f64)},
      {"MPI_Ibcast", 1, "broadcast of 40 u8", broadcast},
      {"MPI_Iallgather", 0, "allgather of " + std::to_string(3 * ranks) + " f64", allgather(equal)},
      {"MPI_Iallgatherv", 0, gathered, allgather(ragged)},
      {"MPI_Ireduce_scatter_block", 0, scattered + " f64", reduce_scatter(equal, DType::f64)},
      {"MPI_Ireduce_scatter", 0, "reduce-scatter of " + std::to_string(ragged.size()) + " f64",
       reduce_scatter(ragged, DType::f64)},
      {"MPI_Irecv", 0, scattered + " bf16", reduce_scatter(equal, DType::bf16)},
      {"MPI_Isend", 0, scattered + " bf16", reduce_scatter(equal, DType::bf16), true},
      {"MPI_Isend", 0, "exchange of 2 f64", exchange, true},
      {"MPI_Type_create_hindexed", 0, "exchange of 2 f64", exchange},
      {"MPI_Type_create_hindexed", 1, "exchange of 2 f64", exchange, true},
      {"MPI_Iallgather", 0, "allreduce of " + std::to_string(2 * ranks) + " bf16", allreduce(2 * ranks, DType::bf16)},
  };
}

void expect_failure(const Case& one, bool on_a_queue) {
  const auto group = mpi_group("failing", {false, 32});
  const auto queue = on_a_queue ? runtime::make_host_queue("queue") : runtime::make_host_compute_stream();
  Operand in = operand(20 * ranks + 20, rank, DType::f64), out = operand(20 * ranks, -1, DType::f64);
  const std::weak_ptr<memory::Storage> storages[] = {in.storage, out.storage};
  mpi_calls = {};
  mpi_calls.failing = one.call;
  mpi_calls.after = one.after;
  expect_error(Status::COMMUNICATION,
               [&] {
                 one.run(*group, *queue, in, out);
                 synchronize(queue->record(), "end");
               },
               {one.operation});
  mpi_calls = {};
  expect_error(Status::FAILED, [&] { group->broadcast(*queue, in, 8, 0); }, {"failing", one.operation});
  in = out = {};
  if (one.has_others_in_flight) {
    EXPECT_FALSE(storages[0].expired());
    EXPECT_FALSE(storages[1].expired());
  }
}

TEST(FailingCalls, NameTheOperationAndKeepItsMemory) {
  if (ranks == 1)
    GTEST_SKIP() << "some of the calls are not made";
  for (const Case& one : all_cases())
    for (const bool on_a_queue : {false, true}) {
      SCOPED_TRACE(std::string(one.call) + " after " + std::to_string(one.after) + ", " + one.operation);
      expect_failure(one, on_a_queue);
    }
}

// With checks either the comparison or what it precedes.
TEST(FailingCalls, UnderChecks) {
  for (const std::string call : {"MPI_Iallgather", "MPI_Iallreduce"}) {
    const auto group = mpi_group("failing", checked);
    const Operand data = operand(8, 1, DType::f64);
    mpi_calls = {};
    mpi_calls.failing = call;
    expect_error(Status::COMMUNICATION,
                 [&] { group->allreduce(*runtime::make_host_compute_stream(), data, 8, DType::f64, ReduceOp::sum); },
                 {"allreduce of 8 f64"});
    EXPECT_EQ(mpi_calls.of("MPI_Iallreduce"), call == "MPI_Iallreduce" ? 1 : 0);
    mpi_calls = {};
  }
}

// What was complete before another operation failed stays complete, also if nobody has looked at it yet.
TEST(FailingCalls, CompleteOperationsStayComplete) {
  if (ranks == 1)
    GTEST_SKIP() << "nothing stays in flight";
  const auto group = mpi_group("failing");
  const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b"), c = runtime::make_host_queue("c");
  const Operand in = operand(8, rank, DType::f64), never = operand(8, -1, DType::f64), out = operand(8, -1, DType::f64);
  group->exchange(*a, in, {}, never, {{(rank + 1) % ranks, 0, 8}}, DType::f64, 0); // nobody sends
  group->exchange(*b, in, {{rank, 0, 8}}, out, {{rank, 0, 8}}, DType::f64, 0);
  mpi_calls = {};
  mpi_calls.failing = "MPI_Iallreduce";
  group->allreduce(*c, in, 8, DType::f64, ReduceOp::sum);
  mpi_calls = {};
  for (const auto& queue : {a, c})
    expect_error(Status::COMMUNICATION, [&] { synchronize(queue->record(), "failing"); }, {"allreduce of 8 f64"});
  EXPECT_NO_THROW(synchronize(b->record(), "complete"));
  EXPECT_EQ(values(out, 8, DType::f64), std::vector<double>(8, rank));
  EXPECT_EQ(values(in, 8, DType::f64), std::vector<double>(8, rank));
}

} // namespace
} // namespace ostraka::comm::test
