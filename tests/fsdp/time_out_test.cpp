// SPDX-License-Identifier: Apache-2.0
// A rank that never arrives: the others get TIME_OUT, and a context that can only be destroyed. The last tests of the
// program, each with a mesh of its own.
#include "network.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/runtime/progress.hpp>

#include <chrono>
#include <functional>

namespace ostraka::fsdp::test {
namespace {

Options make_options() {
  Options options;
  options.net = mlp({4, 5, 2});
  return options;
}

void expect_failed(Training<double>& t) {
  const std::vector<double> values(2, 0.0);
  const std::function<void()> operations[] = {
      [&] { t.module(0).pre_forward(); },     [&] { t.module(0).unshard(); },
      [&] { t.context().finish_backward(); }, [&] { t.context().zero_grad(); },
      [&] { t.context().begin_inference(); }, [&] { t.context().fail_step("x"); },
      [&] { t.context().named_states(); },    [&] { t.context().set_last_microbatch(true); },
  };
  for (const auto& operation : operations)
    expect_error(Status::FAILED, operation, {"only be destroyed", "not complete after", "OSTRAKA_TIMEOUT_S"});
  EXPECT_THROW(t.optimizer().step(), Error);
}

/// The last rank does not take part in `action`; the others time out. Collective.
void expect_time_out(Training<double>& t, const std::function<void()>& action,
                     std::initializer_list<std::string> parts) {
  if (rank == ranks - 1) {
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.5");
  expect_error(Status::TIME_OUT, action, parts);
  expect_failed(t);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(TimeOut, InAGather) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options());
  const auto action = [&] { t.module(0).pre_forward(); };
  if (!shares_weights()) {
    expect_time_out(t, action, {"allgather", "gather", "rank " + std::to_string(rank)});
    return;
  }
  t.step();
  t.backward_all(); // nothing is gathered: readers wait for the update of each part
  if (rank != ranks - 1)
    t.optimizer().step();
  expect_time_out(t, action, {"waiting for the update of", "layer0", "rank " + std::to_string(ranks - 1)});
}

TEST(TimeOut, InAReduction) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  Options options = make_options();
  options.config.recipe = Recipe::no_shard; // gathers nothing, except between nodes that share memory
  Training<double> t(mesh, options);
  expect_time_out(t,
                  [&] {
                    t.pass(0);
                    t.context().finish_backward();
                  },
                  {shares_weights() ? "reduce-scatter"
                   : cuts_updates() ? "allgather"
                                    : "allreduce"});
}

TEST(TimeOut, InTheSlotOfAGradient) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  Options options = make_options();
  options.config.gradient_slots = 1;
  Training<double> t(mesh, options);
  if (rank == ranks - 1) { // gathers, but reduces nothing
    t.module(0).pre_forward();
    t.module(0).post_forward();
    t.module(1).pre_forward();
    t.module(1).post_forward();
    t.module(1).pre_backward();
    t.module(0).unshard(); // which was gathered ahead
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  EXPECT_FALSE(t.pass(0, 2 * 2 + 3 + 1)); // up to pre_backward of layer0: all gathers are done
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.5");
  expect_error(Status::TIME_OUT, [&] { t.module(0).gradient("weight", DType::f64); },
               {"gradient slot", "reduce-scatter"});
  expect_failed(t);
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(TimeOut, InFinishBackward) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options());
  t.context().zero_grad();
  t.pass(0);
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (std::chrono::steady_clock::now() < end)
    runtime::progress_all(); // its reductions arrive, its agreement does not
  expect_time_out(t, [&] { t.context().finish_backward(); }, {"fsdp context"});
}

TEST(TimeOut, InFinalize) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& module = context->add_module("m");
  module.add_parameter({"a", {5}, DType::f64, true});
  module.build();
  if (rank != ranks - 1) {
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.5");
    expect_error(Status::TIME_OUT, [&] { context->finalize(); }, {"fsdp context", "allreduce"});
    expect_error(Status::FAILED, [&] { context->finalize(); }, {"only be destroyed"});
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Other contexts made afterwards are not affected.
TEST(TimeOut, ANewContextWorks) {
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options());
  t.expect_usable("contexts that timed out");
}

// With one queue a gather waits for the reductions before it; the last rank takes part in the gathers only.
TEST(TimeOut, AUnifiedStreamTakesTurns) {
  if (ranks == 1 || cuts_updates())
    GTEST_SKIP() << "needs two ranks that share nothing";
  const ScopedEnvironment unchecked("OSTRAKA_CHECK", "0"); // compared operations wait for all ranks to look
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  for (const bool unified : {false, true}) {
    Options options;
    options.net = mlp({4, 4, 4, 4});
    options.config.unified_stream = unified;
    Training<double> t(mesh, options);
    t.pass(0, 2 * 3 + 1); // up to the gradients of the last module
    const auto reduce = [&] {
      t.module(2).gradient("weight", DType::f64);
      t.module(2).gradient("bias", DType::f64);
      t.module(2).post_backward();
    };
    if (rank != ranks - 1)
      reduce();
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", unified ? "0.5" : "10");
    if (unified)
      expect_error(Status::TIME_OUT, [&] { t.module(0).unshard(); }, {"allgather"});
    else
      EXPECT_NO_THROW(t.module(0).unshard());
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == ranks - 1 && !unified)
      reduce();
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

} // namespace
} // namespace ostraka::fsdp::test
