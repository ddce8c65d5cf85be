// SPDX-License-Identifier: Apache-2.0
// Sharded training against plain training of the whole batch in one process (spec 6.4).
#include "network.hpp"
#include "support/round_16.hpp"

namespace ostraka::fsdp::test {
namespace {

using layout::ReduceOp;

std::string text(const Options& options) {
  std::string name = fsdp::test::text(options.config.recipe);
  name += options.config.reduction == ReduceOp::mean ? " mean" : " sum";
  name += options.optimizer.is_adamw ? " AdamW" : " SGD";
  return name + " micro-batches " + std::to_string(options.micro_batches);
}

/// Calls body(options) for every recipe, reduction, optimizer and {1, 3} micro-batches.
template <class Body>
void for_all(const Architecture& net, Body&& body) {
  for (const Recipe recipe : all_recipes)
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean})
      for (const bool is_adamw : {false, true})
        for (const int micro_batches : {1, 3}) {
          Options options;
          options.net = net;
          options.config = make_config(recipe, op);
          options.optimizer.is_adamw = is_adamw;
          options.micro_batches = micro_batches;
          SCOPED_TRACE(text(options));
          body(options);
        }
}

void expect_parity(const Options& options, double tolerance) {
  const auto mesh = make_mesh();
  Training<double> training(mesh, options);
  for (int step = 1; step <= 5; ++step) {
    training.step();
    training.expect_equal(tolerance, "step " + std::to_string(step));
  }
}

TEST(Parity, Mlp) {
  for_all(mlp({8, 16, 4}), [](const Options& options) { expect_parity(options, 1e-12); });
}

TEST(Parity, LayerSizesThatDoNotDivide) {
  for_all(mlp({5, 7, 3, 1}), [](const Options& options) { expect_parity(options, 1e-12); });
}

TEST(Parity, FewerElementsThanRanks) {
  for_all(mlp({1, 1, 1}), [](const Options& options) { expect_parity(options, 1e-12); });
}

TEST(Parity, AModuleUsedSeveralTimes) {
  Architecture net = mlp({4, 6, 6, 3});
  net.visits = {0, 1, 1, 1, 2};
  for_all(net, [](const Options& options) { expect_parity(options, 1e-12); });
}

TEST(Parity, RepeatsBetweenOtherModules) { // [a, b, a, c]
  Architecture net = mlp({4, 4, 4, 3});
  net.visits = {0, 1, 0, 2};
  for_all(net, [](const Options& options) { expect_parity(options, 1e-12); });
}

TEST(Parity, VisitedInAnotherOrderThanRegistered) {
  for_all(mlp({6, 5, 5, 2}), [](Options options) {
    options.registration = {1, 2, 0};
    expect_parity(options, 1e-12);
  });
}

TEST(Parity, OneAndManyGradientSlots) {
  for (const int slots : {1, 3, 7}) {
    Options options;
    options.net = mlp({4, 6, 6, 6, 3});
    options.config.gradient_slots = slots;
    options.micro_batches = 2;
    expect_parity(options, 1e-12);
  }
}

// The twin's gradients come from double arithmetic, the library's from float: five steps of at most 0.05 in size.
TEST(Parity, F32) {
  for_all(mlp({5, 7, 4}), [](Options options) {
    options.storage = DType::f32;
    options.optimizer.epsilon = 1e-3; // gradients near 0 must not be blown up to steps of full size
    const auto mesh = make_mesh();
    Training<float> training(mesh, options);
    for (int step = 1; step <= 5; ++step) {
      training.step();
      training.expect_equal(2e-5, "step " + std::to_string(step));
    }
  });
}

TEST(Parity, F32WithMainWeightsOfF64) {
  for (const int micro_batches : {1, 3}) {
    Options options;
    options.storage = DType::f32;
    options.config.main_dtype = DType::f64;
    options.micro_batches = micro_batches;
    const auto mesh = make_mesh();
    Training<float> training(mesh, options);
    for (int step = 1; step <= 5; ++step)
      training.step();
    training.expect_equal(2e-5);
    EXPECT_EQ(training.context().named_states()[0].main_weight.dtype(), DType::f64);
    EXPECT_EQ(training.context().named_states()[0].main_gradient.dtype(), DType::f64);
  }
}

TEST(Parity, F64WithMainWeightsOfF32) {
  Options options;
  options.config.main_dtype = DType::f32;
  options.micro_batches = 3;
  const auto mesh = make_mesh();
  Training<double> training(mesh, options);
  for (int step = 1; step <= 5; ++step)
    training.step();
  training.expect_equal(2e-5);
}

Values rounded(Values values) {
  for (auto& parameter : values)
    for (double& value : parameter)
      value = bf16_value(round_to_bf16(value));
  return values;
}

Values gathered(Training<float>& training) {
  Values values;
  for (int m = 0; m < training.num_modules(); ++m)
    for (const char* name : {"weight", "bias"})
      values.push_back(whole_parameter(training.module(m), name));
  return values;
}

// Weights are exactly bf16(main) after every step. Main weights follow a twin that sees rounded weights; a weight that
// rounds the other way because of float arithmetic moves gradients by 2^-9, hence the bound: 5 steps * 0.05 * 2^-9 * 4.
TEST(Parity, Bf16StorageWithF32Main) {
  for_all(mlp({5, 7, 4}), [](Options options) {
    options.storage = DType::bf16;
    options.optimizer.epsilon = 1e-2;
    const auto mesh = make_mesh();
    Training<float> training(mesh, options);
    EXPECT_EQ(gathered(training), rounded(training.plain_weights())); // set_parameter rounds, too
    for (int step = 1; step <= 5; ++step) {
      training.backward_all();
      training.optimizer().step();
      training.plain_step(rounded(training.plain_weights()));
      const Values main = whole_main_weights(training.context());
      EXPECT_EQ(gathered(training), rounded(main)) << "step " << step;
      for (std::size_t p = 0; p < main.size(); ++p)
        expect_close(main[p], training.plain_weights()[p], 2e-3, "main weights, step " + std::to_string(step));
    }
  });
}

/// One linear layer whose data, gradients and steps are short binary fractions: everything is exact.
Options exact_options(Recipe recipe, DType storage) {
  Options options;
  options.net = mlp({4, 4});
  options.config = make_config(recipe, ReduceOp::sum);
  options.storage = storage;
  options.rows = 16; // on 2, 3, 4 ranks: 5 + 11, 2 + 6 + 8, 1 + 3 + 5 + 7 rows
  options.optimizer.rate = 0.25;
  options.optimizer.momentum = 0.5;
  options.optimizer.weight_decay = 0;
  return options;
}

TEST(Parity, UnevenBatchesSumExactly) {
  for (const Recipe recipe : all_recipes)
    for (const int micro_batches : {1, 2}) {
      Options options = exact_options(recipe, DType::f64);
      options.micro_batches = micro_batches;
      const auto mesh = make_mesh();
      Training<double> training(mesh, options);
      for (int step = 1; step <= 2; ++step) {
        training.step();
        training.expect_equal(0, "step " + std::to_string(step));
      }
    }
}

TEST(Parity, Bf16ExactWhereNothingRounds) {
  for (const Recipe recipe : all_recipes) {
    const auto mesh = make_mesh();
    Training<float> training(mesh, exact_options(recipe, DType::bf16));
    const Values seen = rounded(training.plain_weights());
    training.backward_all();
    training.optimizer().step();
    training.plain_step(seen);
    const Values main = whole_main_weights(training.context());
    EXPECT_EQ(main, training.plain_weights());
    EXPECT_EQ(gathered(training), rounded(training.plain_weights()));
  }
}

TEST(Parity, LearningRateChangesBetweenSteps) {
  for (const bool is_adamw : {false, true}) {
    Options options;
    options.optimizer.is_adamw = is_adamw;
    const auto mesh = make_mesh();
    Training<double> training(mesh, options);
    PlainOptimizer plain = options.optimizer;
    Values weights = training.plain_weights();
    for (int step = 1; step <= 3; ++step) {
      plain.rate = 0.1 / step;
      training.optimizer().set_learning_rate(plain.rate);
      training.backward_all();
      training.optimizer().step();
      plain.step(weights, training.plain_gradients(weights));
      const Values main = whole_main_weights(training.context());
      for (std::size_t p = 0; p < main.size(); ++p)
        expect_close(main[p], weights[p], 1e-12, "step " + std::to_string(step));
    }
  }
}

} // namespace
} // namespace ostraka::fsdp::test
