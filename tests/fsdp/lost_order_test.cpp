// SPDX-License-Identifier: Apache-2.0
// Weights that a node shares: ranks that use and update them in different orders, and what is left of the context.
#include "network.hpp"
#include "support/scoped_environment.hpp"

namespace ostraka::fsdp::test {
namespace {

constexpr const char* needs_shared_weights = "needs weights that all ranks share";

Options make_options() {
  Options options;
  options.net = mlp({4, 4, 4, 4});
  options.config = make_config(Recipe::zero_3);
  return options;
}

void set(Training<double>& t, int m, double value) {
  const std::vector<double> values(16, value);
  t.module(m).set_parameter("weight", values.data(), 16, DType::f64);
}

/// Everything that communicates refuses with FAILED from now on.
void expect_failed(Training<double>& t) {
  expect_error(Status::FAILED, [&] { t.module(0).pre_forward(); });
  expect_error(Status::FAILED, [&] { set(t, 0, 1); });
  expect_error(Status::FAILED, [&] { t.context().finish_backward(); });
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(LostOrder, LoadsInDifferentOrders) {
  if (!shares_weights())
    GTEST_SKIP() << needs_shared_weights;
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options());
  t.step();
  set(t, rank == 0 ? 0 : 1, 1);
  set(t, rank == 0 ? 1 : 0, 1);
  Status status = Status::OK;
  std::string text;
  try {
    t.module(0).unshard();
  } catch (const Error& error) {
    status = error.status();
    text = error.what();
  }
  EXPECT_TRUE(status == Status::RANKS_DISAGREE || status == Status::FAILED) << text;
  for (const char* part : {"an update of 'layer0.", "an update of 'layer1.", "the same order on all ranks"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
  expect_failed(t);
}

TEST(LostOrder, AnUpdateWhileARankKeepsTheWeights) {
  if (!shares_weights())
    GTEST_SKIP() << needs_shared_weights;
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options());
  t.step(); // the first one agrees on memory, too
  t.backward_all();
  t.module(1).unshard();
  if (rank != ranks - 1) {
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.5");
    t.module(1).reshard();
    expect_error(Status::TIME_OUT, [&] { t.optimizer().step(); }, {"waiting for the end of all uses of 'layer1."});
    expect_failed(t);
    expect_error(Status::FAILED, [&] { t.optimizer().step(); });
  } else {
    expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"in use"});
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

// The first order is that of add_module, so what is left of it does not tell of the second use of layer0.
TEST(LostOrder, AFailedStepThatCountsFewerUses) {
  if (!shares_weights())
    GTEST_SKIP() << needs_shared_weights;
  const auto mesh = make_mesh();
  for (int failing = 0; failing < ranks; ++failing)
    for (int stop = 0; stop < 4; ++stop) { // in the first two visits
      Options options = make_options();
      options.net.visits = {0, 1, 0, 2};
      Training<double> t(mesh, options);
      t.context().zero_grad();
      if (!t.pass(0, rank == failing ? stop : -1))
        t.context().fail_step("random");
      expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); },
                   {"random", "rank " + std::to_string(failing)});
      for (int step = 0; step < 2; ++step)
        t.expect_usable("rank " + std::to_string(failing) + " stopped at " + std::to_string(stop));
    }
}

} // namespace
} // namespace ostraka::fsdp::test
