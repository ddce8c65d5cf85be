// SPDX-License-Identifier: Apache-2.0
// A rank that never arrives. Gives up communication in flight, so these tests run last, each with a mesh of its own.
#include "vectors.hpp"
#include <ostraka/runtime/progress.hpp>

#include <chrono>

namespace ostraka::ddp::test {
namespace {

void expect_failed(Lowered& v) {
  const std::function<void()> operations[] = {
      [&] { v.ddp->parameter("a.w", DType::f64); },
      [&] { v.ddp->gradient("a.w", DType::f64); },
      [&] { v.ddp->finish_grad_sync(); },
      [&] { v.ddp->zero_grad_buffer(); },
      [&] { v.ddp->fail_step("x"); },
      [&] { v.ddp->start_param_sync(); },
      [&] { v.ddp->broadcast_params(); },
      [&] { v.ddp->named_states(); },
      [&] { v.optimizer->step(); },
  };
  for (const auto& operation : operations)
    expect_error(Status::FAILED, operation, {"ddp", "only be destroyed", "not complete after", "OSTRAKA_TIMEOUT_S"});
}

/// The last rank does not take part in `action`; the others time out. Collective.
void expect_time_out(Lowered& v, const std::function<void()>& action, std::initializer_list<std::string> parts) {
  if (rank != ranks - 1) {
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.5");
    expect_error(Status::TIME_OUT, action, parts);
    expect_failed(v);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(TimeOut, InAReduction) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  for (const bool sharded : {false, true}) {
    Lowered v(make_mesh(), make_config(sharded));
    const auto step = [&] {
      v.backward(1);
      v.ddp->finish_grad_sync();
    };
    expect_time_out(v, step, {"gradients of bucket 0", "'h.w'"});
  }
}

TEST(TimeOut, InAGather) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  Lowered v(make_mesh(), make_config(true));
  v.step();
  expect_time_out(v, [&] { v.ddp->pre_forward("a"); }, {"allgather", "weights of bucket 3"});
}

TEST(TimeOut, InTheAgreement) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  Lowered v(make_mesh(), make_config(false));
  v.step();
  v.ddp->zero_grad_buffer();
  v.backward(1);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end)
    runtime::progress_all(); // its reductions arrive, its agreement does not
  expect_time_out(v, [&] { v.ddp->finish_grad_sync(); }, {"ddp"});
}

TEST(TimeOut, InFinalize) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto ddp = DistributedDataParallel::create(make_mesh());
  ddp->add_parameter(vector_of("a.w", 5));
  if (rank != ranks - 1) {
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.5");
    expect_error(Status::TIME_OUT, [&] { ddp->finalize(); }, {"ddp"});
    expect_error(Status::FAILED, [&] { ddp->finalize(); }, {"only be destroyed"});
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Others made afterwards are not affected.
TEST(TimeOut, ANewOneWorks) {
  Lowered v(make_mesh(), make_config(true));
  for (int step = 0; step < 2; ++step)
    v.step();
  v.expect_all_current();
}

} // namespace
} // namespace ostraka::ddp::test
