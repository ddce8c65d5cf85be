// SPDX-License-Identifier: Apache-2.0
// What optimizers refuse, and what they keep.
#include "optim_test.hpp"
#include <ostraka/runtime/progress.hpp>

#include <limits>

namespace ostraka::optim::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

struct TwoStates {
  buffer::MeshPtr mesh = make_mesh();
  std::shared_ptr<Calls> first = std::make_shared<Calls>(), second = std::make_shared<Calls>();
  std::vector<NamedState> states{make_state(mesh, {{6}, {2}}, DType::f64, {layout::shard()}, "first", first),
                                 make_state(mesh, {{5}}, DType::f64, {layout::shard()}, "second", second)};

  TwoStates() {
    for (const NamedState& state : states) {
      fill(state.main_weight, weight_value);
      fill(state.main_gradient, [](int t, std::int64_t i) { return gradient_value(t, i, 1); });
    }
  }
  void expect_unchanged() {
    for (const NamedState& state : states)
      for_elements(state.main_weight,
                   [&](double found, int t, std::int64_t i) { EXPECT_EQ(found, weight_value(t, i)); });
    EXPECT_EQ(first->refresh + second->refresh, 0);
  }
};

TEST(OptimizerErrors, AMissingGradientIsNamedAndNothingChanges) {
  TwoStates two;
  two.second->has_gradient = false;
  const auto adamw = make_adamw(two.states, {});
  const auto sgd = make_sgd(two.states, {});
  for (Optimizer* optimizer : {adamw.get(), sgd.get()}) {
    expect_error(Status::INVALID_STATE, [&] { optimizer->step(); }, {"second.p0", "gradient"});
    EXPECT_EQ(optimizer->steps(), 0);
  }
  two.expect_unchanged();
  two.second->has_gradient = true;
  adamw->step();
  EXPECT_EQ(adamw->steps(), 1);
  EXPECT_EQ(two.second->refresh, 1);
}

TEST(OptimizerErrors, WeightsInUseAreRefusedAndNothingChanges) {
  TwoStates two;
  two.states[1].check_update = [] { fail(Status::INVALID_STATE, "module 'second' is in use"); };
  const auto optimizer = make_adamw(two.states, {});
  expect_error(Status::INVALID_STATE, [&] { optimizer->step(); }, {"second"});
  EXPECT_EQ(optimizer->steps(), 0);
  two.expect_unchanged();
}

TEST(OptimizerErrors, AdamWCoefficients) {
  for (const double bad : {-0.1, 1.0, 1.5, nan, inf}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { make_adamw({}, {.beta1 = bad}); }, {"adamw", "beta1"});
    expect_error(Status::INVALID_ARGUMENT, [&] { make_adamw({}, {.beta2 = bad}); }, {"adamw", "beta2"});
  }
  for (const double bad : {-1e-9, nan, inf}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { make_adamw({}, {.learning_rate = bad}); }, {"learning_rate"});
    expect_error(Status::INVALID_ARGUMENT, [&] { make_adamw({}, {.epsilon = bad}); }, {"adamw", "epsilon"});
    expect_error(Status::INVALID_ARGUMENT, [&] { make_adamw({}, {.weight_decay = bad}); }, {"adamw", "weight_decay"});
  }
}

TEST(OptimizerErrors, SgdCoefficients) {
  for (const double bad : {-0.1, 1.0, nan, inf})
    expect_error(Status::INVALID_ARGUMENT, [&] { make_sgd({}, {.momentum = bad}); }, {"sgd", "momentum"});
  for (const double bad : {-1e-9, nan, inf}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { make_sgd({}, {.learning_rate = bad}); }, {"learning_rate"});
    expect_error(Status::INVALID_ARGUMENT, [&] { make_sgd({}, {.weight_decay = bad}); }, {"sgd", "weight_decay"});
  }
}

TEST(OptimizerErrors, ABadLearningRateKeepsTheOldOne) {
  const auto optimizer = make_sgd({}, {.learning_rate = 0.5});
  for (const double bad : {-1.0, nan, inf})
    expect_error(Status::INVALID_ARGUMENT, [&] { optimizer->set_learning_rate(bad); }, {"learning_rate"});
  EXPECT_EQ(optimizer->learning_rate(), 0.5);
  optimizer->set_learning_rate(0);
  EXPECT_EQ(optimizer->learning_rate(), 0);
}

TEST(OptimizerErrors, MainWeightsOfSixteenBits) {
  const auto mesh = make_mesh();
  const NamedState state = make_state(mesh, {{8}}, DType::bf16, {layout::shard()}, "m", std::make_shared<Calls>());
  expect_error(Status::TYPE_MISMATCH, [&] { make_sgd({state}, {})->step(); }, {"bf16"});
  expect_error(Status::TYPE_MISMATCH, [&] { make_adamw({state}, {})->step(); }, {"bf16"});
}

TEST(Optimizer, WithoutStates) {
  const auto optimizer = make_adamw({}, {});
  optimizer->step();
  EXPECT_EQ(optimizer->steps(), 1);
}

TEST(Optimizer, StateIsTakenAtTheFirstStepAndCounted) {
  for (const int buffers : {2, 1, 0}) {
    TwoStates two;
    const auto arena = two.mesh->arena();
    std::int64_t expected = 0;
    for (const NamedState& state : two.states)
      expected += buffers * ((state.main_weight.bytes() + 63) / 64 * 64);
    const auto optimizer =
        buffers == 2 ? make_adamw(two.states, {}) : make_sgd(two.states, {.momentum = buffers * 0.5});
    EXPECT_EQ(arena->usage(memory::Kind::optimizer_state).in_use, 0);
    for (int step = 0; step < 2; ++step) {
      optimizer->step();
      EXPECT_EQ(arena->usage(memory::Kind::optimizer_state).in_use, expected);
    }
  }
}

TEST(Optimizer, StateGoesWithTheOptimizer) {
  TwoStates two;
  make_adamw(two.states, {})->step();
  runtime::synchronize(runtime::compute_stream(two.mesh->device())->record(), "the step"); // which uses it
  runtime::progress_all();
  EXPECT_EQ(two.mesh->arena()->usage(memory::Kind::optimizer_state).in_use, 0);
}

// A state that brings its moments (a checkpoint was loaded) keeps them.
TEST(Optimizer, PresentStateIsUsed) {
  const auto mesh = make_mesh();
  NamedState state = make_state(mesh, {{7}}, DType::f64, {layout::shard()}, "m", std::make_shared<Calls>());
  const NamedState momentum = make_state(mesh, {{7}}, DType::f64, {layout::shard()}, "m", std::make_shared<Calls>());
  fill(momentum.main_weight, [](int, std::int64_t i) { return static_cast<double>(i); });
  fill(state.main_gradient, [](int, std::int64_t) { return 1.0; });
  state.state["momentum_buffer"] = momentum.main_weight;
  make_sgd({state}, {.learning_rate = 1, .momentum = 0.5})->step();
  for_elements(state.main_weight,
               [](double found, int, std::int64_t i) { EXPECT_EQ(found, -(0.5 * static_cast<double>(i) + 1)); });
}

} // namespace
} // namespace ostraka::optim::test
