// SPDX-License-Identifier: Apache-2.0
// Ranks that call with different sizes while nothing is compared: MPI may find it or not, but every rank ends, and what
// the library itself sends is never taken for what it is not. Messages are small: beyond 4 KiB Open MPI 4.1 writes the
// whole of a message that is too long, past the end of its buffer.
#include "oracle.hpp"
#include "support/scoped_environment.hpp"

#include <functional>

namespace ostraka::comm::test {
namespace {

struct Case {
  const char* operation;
  std::function<void(Communicator&, runtime::Stream&, const Operand& in, const Operand& out, std::int64_t size)> run;
  bool is_own; ///< messages of the library, whose sizes it knows
};

std::vector<Case> all_cases() {
  const auto equal = [](std::int64_t size) { return Segments::equal(ranks, size); };
  const auto ragged = [](std::int64_t size) { return pieces_by([=](int k) { return k == 0 ? size : 6; }); };
  const auto reduce = [](DType dtype) {
    return [=](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand&, std::int64_t size) {
      group.allreduce(stream, in, size, dtype, ReduceOp::sum);
    };
  };
  const auto gather = [](auto pieces) {
    return [=](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand& out, std::int64_t size) {
      group.allgather(stream, in, out, pieces(size), DType::f64);
    };
  };
  const auto scatter = [](auto pieces, DType dtype) {
    return [=](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand& out, std::int64_t size) {
      group.reduce_scatter(stream, in, out, pieces(size), dtype, ReduceOp::sum);
    };
  };
  const auto send = [](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand&,
                       std::int64_t size) { group.broadcast(stream, in, size, 0); };
  const auto exchange = [](Communicator& group, runtime::Stream& stream, const Operand& in, const Operand& out,
                           std::int64_t size) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    group.exchange(stream, in, {{next, 0, size}}, out, {{before, 0, 2}, {before, 4, size - 2}}, DType::f64, 0);
  };
  return {{"allreduce", reduce(DType::f64), false},
          {"allreduce", reduce(DType::bf16), true},
          {"allgather", gather(equal), false},
          {"allgather", gather(ragged), false},
          {"reduce-scatter", scatter(equal, DType::f64), false},
          {"reduce-scatter", scatter(ragged, DType::f64), false},
          {"reduce-scatter", scatter(equal, DType::f16), true},
          {"reduce-scatter", scatter(ragged, DType::f16), true},
          {"broadcast", send, false},
          {"exchange", exchange, true}};
}

/// Runs the case with `size`; the status that this rank ends with.
Status end_of(const Case& one, std::int64_t size) {
  const auto group = mpi_group("different");
  const Operand in = operand(20 * ranks, rank, DType::f64), out = operand(20 * ranks, -1, DType::f64);
  try {
    one.run(*group, *runtime::make_host_compute_stream(), in, out, size);
    return Status::OK;
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(one.operation), std::string::npos) << error.what();
    EXPECT_NE(group->failure(), "");
    return error.status();
  }
}

TEST(Mismatch, EveryRankEnds) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.1");
  for (const Case& one : all_cases())
    for (const bool is_larger : {false, true}) {
      SCOPED_TRACE(std::string(one.operation) + (one.is_own ? " of our own" : "") + (is_larger ? ", larger" : ""));
      const Status status = end_of(one, rank != ranks - 1 ? 8 : is_larger ? 11 : 5);
      EXPECT_TRUE(status == Status::OK || status == Status::COMMUNICATION || status == Status::RANKS_DISAGREE ||
                  status == Status::TIME_OUT)
          << name(status);
      int succeeded = status == Status::OK ? 1 : 0;
      MPI_Allreduce(MPI_IN_PLACE, &succeeded, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
      EXPECT_LT(succeeded, one.is_own ? ranks : ranks + 1);
    }
}

// A message of the library that is shorter than expected is an error that says from whom, not a result with a rest of
// something else in it.
TEST(Mismatch, ShortMessages) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.3");
  const auto stream = runtime::make_host_compute_stream();
  const Operand in = operand(12 * ranks, rank, DType::f64), out = operand(12 * ranks, -1, DType::f64);
  const auto exchanging = mpi_group("different");
  if (rank == 0)
    exchanging->exchange(*stream, in, {{1, 0, 5}}, out, {}, DType::f64, 0);
  if (rank == 1)
    expect_error(Status::RANKS_DISAGREE,
                 [&] {
                   exchanging->exchange(*stream, in, {}, out, {{0, 2, 4}, {0, 8, 4}}, DType::f64, 0);
                 },
                 {"exchange of 8 f64", "8 elements", "rank 0", "5"});
  const auto reducing = mpi_group("different"); // the piece of rank 1 is smaller in the eyes of rank 0
  const Segments pieces = pieces_by([](int k) { return k != 1 ? 0 : rank == 0 ? 3 : 8; });
  if (rank == 1)
    expect_error(Status::RANKS_DISAGREE,
                 [&] { reducing->reduce_scatter(*stream, in, out, pieces, DType::bf16, ReduceOp::sum); },
                 {"reduce-scatter of 8 bf16", "8 elements", "rank 0", "3"});
  else
    reducing->reduce_scatter(*stream, in, out, pieces, DType::bf16, ReduceOp::sum);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Mismatch, LongMessages) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  const auto stream = runtime::make_host_compute_stream();
  const Operand in = operand(8, rank, DType::f64), out = operand(8, -1, DType::f64);
  const auto group = mpi_group("different");
  if (rank == 0)
    group->exchange(*stream, in, {{1, 0, 5}}, out, {}, DType::f64, 0);
  if (rank == 1)
    expect_error(Status::COMMUNICATION,
                 [&] {
                   group->exchange(*stream, in, {}, out, {{0, 0, 4}}, DType::f64, 0);
                 },
                 {"exchange of 4 f64", "runcated"}); // of the message that failed, not that one of several did
  MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace
} // namespace ostraka::comm::test
