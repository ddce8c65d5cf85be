// SPDX-License-Identifier: Apache-2.0
// A rank that never calls: the others get an error that names the operation, and everybody can end.
#include "group.hpp"
#include "support/scoped_environment.hpp"

namespace ostraka::comm::test {
namespace {

void after_failure(Communicator& group) {
  const auto stream = runtime::make_host_compute_stream();
  const Operand data = operand(8, 0, DType::f64);
  for (int i = 0; i < 2; ++i)
    expect_error(Status::FAILED, [&] { group.broadcast(*stream, data, 8, 0); },
                 {"broadcast", "absent", "OSTRAKA_TIMEOUT_S"}); // the first cause
  EXPECT_EQ(group.pending(), "");
}

TEST(Absence, OnTheComputeStream) {
  const auto group = all_groups("absent").front();
  if (ranks > 1 && rank != 0) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.5");
    Operand data = operand(8, rank, DType::f64);
    const std::weak_ptr<memory::Storage> storage = data.storage;
    expect_error(Status::TIME_OUT, [&] { group->allreduce(*runtime::make_host_compute_stream(), data, 8, DType::f64); },
                 {"absent", "allreduce of 8 f64", "started", "rank " + std::to_string(rank)});
    after_failure(*group);
    data = {};
    EXPECT_FALSE(storage.expired()) << "MPI may still write there";
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Absence, OnAQueue) {
  const auto group = all_groups("absent").front(), other = all_groups("other").front();
  if (ranks > 1 && rank != ranks - 1) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.5");
    const auto queue = runtime::make_host_queue("row gather");
    const Operand in = operand(8, rank, DType::f32), out = operand(8 * ranks, 0, DType::f32);
    bool ran = false;
    group->allgather(*queue, in, out, 8, DType::f32);
    group->allgather(*queue, in, out, 8, DType::f32);
    queue->launch("later", [&](const runtime::Execution&) { ran = true; });
    const runtime::Event end = queue->record();
    expect_error(Status::TIME_OUT, [&] { synchronize(end, "unshard of layer 3"); },
                 {"unshard of layer 3", "absent", "allgather of 8 f32", "and 1 more", "row gather stream"});
    EXPECT_FALSE(ran);
    expect_error(Status::FAILED, [&] { synchronize(end, "again"); }, {"unshard of layer 3"});
    after_failure(*group);
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // A communicator without work in flight is not touched by the time-out of another.
  const Operand data = operand(1, 1, DType::f64);
  EXPECT_NO_THROW(other->allreduce(*runtime::make_host_compute_stream(), data, 1, DType::f64));
  EXPECT_EQ(values(data, 1, DType::f64)[0], ranks);
}

} // namespace
} // namespace ostraka::comm::test
