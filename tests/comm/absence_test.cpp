// SPDX-License-Identifier: Apache-2.0
// A rank that never calls: the others get an error that names the operation, and everybody can end.
#include "oracle.hpp"
#include "support/scoped_environment.hpp"

namespace ostraka::comm::test {
namespace {

constexpr const char* short_time = "0.2";

void after_failure(Communicator& group) {
  const auto stream = runtime::make_host_compute_stream();
  const Operand data = operand(8, 0, DType::f64);
  for (int i = 0; i < 2; ++i)
    expect_error(Status::FAILED, [&] { group.broadcast(*stream, data, 8, 0); },
                 {"broadcast", "absent", "OSTRAKA_TIMEOUT_S"}); // the first cause
  EXPECT_EQ(group.pending(), "");
}

/// With and without checks, which wait for the absent rank already before the operation starts.
class Absence : public testing::TestWithParam<bool> {
protected:
  MpiSettings settings_ = GetParam() ? checked : plain;
};

INSTANTIATE_TEST_SUITE_P(Checks, Absence, testing::Bool());

TEST_P(Absence, OnTheComputeStream) {
  const auto group = mpi_group("absent", settings_);
  if (rank != 0) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", short_time);
    Operand data = operand(8, rank, DType::f64);
    const std::weak_ptr<memory::Storage> storage = data.storage;
    const Name name = std::make_shared<const std::string>("layer1");
    expect_error(
        Status::TIME_OUT,
        [&] { group->allreduce(*runtime::make_host_compute_stream(), data, 8, DType::f64, ReduceOp::sum, name); },
        {"absent", "allreduce of 8 f64 of 'layer1'", "started", "rank " + std::to_string(rank)});
    after_failure(*group);
    EXPECT_TRUE(!GetParam() || values(data, 8, DType::f64) == std::vector<double>(8, rank)) << "started";
    data = {};
    EXPECT_FALSE(storage.expired()) << "MPI may still write there";
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_P(Absence, OnAQueue) {
  const auto group = mpi_group("absent", settings_), other = mpi_group("other", settings_);
  if (rank != ranks - 1) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", short_time);
    const auto queue = runtime::make_host_queue("row gather");
    const Operand in = operand(8, rank, DType::f32), out = operand(8 * ranks, 0, DType::f32);
    bool ran = false;
    group->allgather(*queue, in, out, Segments::equal(ranks, 8), DType::f32);
    group->broadcast(*queue, in, 32, 0);
    queue->launch("later", [&](const runtime::Execution&) { ran = true; });
    const runtime::Event end = queue->record();
    expect_error(Status::TIME_OUT, [&] { synchronize(end, "unshard of layer 3"); },
                 {"unshard of layer 3", "absent", "allgather of " + std::to_string(8 * ranks) + " f32", "and 1 more",
                  "row gather stream"});
    EXPECT_FALSE(ran);
    expect_error(Status::FAILED, [&] { synchronize(end, "again"); }, {"unshard of layer 3"});
    after_failure(*group);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // A communicator without work in flight is not touched by the time-out of another.
  const Operand data = operand(1, 1, DType::f64);
  EXPECT_NO_THROW(other->allreduce(*runtime::make_host_compute_stream(), data, 1, DType::f64, ReduceOp::sum));
  EXPECT_EQ(values(data, 1, DType::f64)[0], ranks);
}

// Messages that were received before the time-out and such that may come later: all their memory is kept.
TEST_P(Absence, OfOwnReductionsAndExchanges) {
  const auto group = mpi_group("absent", settings_);
  if (rank != 0) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", short_time);
    const auto queue = runtime::make_host_queue("queue");
    Operand half = operand(8 * ranks, rank, DType::bf16), in = operand(8, rank, DType::f64);
    Operand out = operand(8, rank, DType::f64);
    const std::weak_ptr<memory::Storage> storages[] = {half.storage, in.storage, out.storage};
    group->allreduce(*queue, half, 8 * ranks, DType::bf16, ReduceOp::sum);
    expect_error(Status::TIME_OUT, [&] { synchronize(queue->record(), "wait"); },
                 {"absent", "allreduce of " + std::to_string(8 * ranks) + " bf16"});
    half = {};
    EXPECT_FALSE(storages[0].expired());
    const auto another = make_mpi_communicator(
        [] {
          MPI_Comm copy = MPI_COMM_NULL;
          MPI_Comm_dup(MPI_COMM_SELF, &copy);
          return copy;
        }(),
        "self", settings_); // goes on
    another->exchange(*runtime::make_host_compute_stream(), in, {{0, 0, 8}}, out, {{0, 0, 8}}, DType::f64, 0);
    EXPECT_EQ(values(out, 8, DType::f64), values(in, 8, DType::f64));
  }
  MPI_Barrier(MPI_COMM_WORLD);
  const auto second = mpi_group("absent", settings_);
  if (rank != 0) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", short_time);
    Operand in = operand(8, rank, DType::f64), out = operand(8, rank, DType::f64);
    const std::weak_ptr<memory::Storage> storages[] = {in.storage, out.storage};
    expect_error(
        Status::TIME_OUT,
        [&] {
          second->exchange(*runtime::make_host_compute_stream(), in, {{0, 0, 8}}, out, {{0, 0, 8}}, DType::f64, 0);
        },
        {"absent", "exchange of 8 f64"});
    in = out = {};
    EXPECT_FALSE(storages[0].expired());
    EXPECT_FALSE(storages[1].expired());
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_P(Absence, CommunicatorDestroyedWithWorkInFlight) {
  auto group = mpi_group("absent", settings_);
  const auto queue = runtime::make_host_queue("queue");
  if (rank != 0) {
    Operand data = operand(8, rank, DType::f64);
    const std::weak_ptr<memory::Storage> storage = data.storage;
    group->allreduce(*queue, data, 8, DType::f64, ReduceOp::sum);
    const runtime::Event end = queue->record();
    group = nullptr;
    data = {};
    expect_error(Status::FAILED, [&] { synchronize(end, "end"); }, {"absent", "destroyed with operations in flight"});
    EXPECT_FALSE(storage.expired()) << "MPI may still write there";
  }
  group = nullptr;
  MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace
} // namespace ostraka::comm::test
