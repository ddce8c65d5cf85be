// SPDX-License-Identifier: Apache-2.0
// Updates made while gradients are reduced: the same training, on every recipe, and what is refused until step().
#include "network.hpp"

namespace ostraka::fsdp::test {
namespace {

using layout::ReduceOp;

TEST(FusedUpdate, ParityWithPlainTraining) {
  for_all_recipes([](const buffer::MeshPtr& mesh, Recipe recipe) {
    for (const bool is_adamw : {false, true})
      for (const int micro_batches : {1, 3}) {
        Options options;
        options.net = mlp({8, 16, 4});
        options.config = make_config(recipe, is_adamw ? ReduceOp::mean : ReduceOp::sum);
        options.optimizer.is_adamw = is_adamw;
        options.micro_batches = micro_batches;
        Training<double> training(mesh, options);
        training.optimizer().fuse_with_reduction();
        for (int step = 1; step <= 4; ++step) {
          training.step();
          training.expect_equal(1e-12, "step " + std::to_string(step));
        }
      }
  });
}

// Several blocks of results, and runs of different hyperparameters that end inside them.
TEST(FusedUpdate, ManyBlocksWithGroups) {
  for_all_recipes([](const buffer::MeshPtr& mesh, Recipe recipe) {
    Options options;
    options.net = mlp({70, 130, 9});
    options.config = make_config(recipe, ReduceOp::sum);
    options.optimizer.is_adamw = true;
    options.rows = 4;
    Training<double> fused(mesh, options), plain(mesh, options);
    for (Training<double>* training : {&fused, &plain})
      training->optimizer().set_group("*.bias", {.learning_rate_factor = 0.5, .weight_decay = 0.25});
    fused.optimizer().fuse_with_reduction();
    for (int step = 0; step < 3; ++step) {
      for (Training<double>* training : {&fused, &plain}) {
        training->backward_all();
        training->optimizer().step();
      }
      EXPECT_EQ(whole_main_weights(fused.context()), whole_main_weights(plain.context())) << "step " << step;
    }
  });
}

TEST(FusedUpdate, ModelWeightsOfAnotherType) {
  for_all_recipes([](const buffer::MeshPtr& mesh, Recipe recipe) {
    Options options;
    options.net = mlp({40, 60, 5});
    options.config = make_config(recipe);
    options.storage = DType::bf16;
    options.rows = 4;
    Training<float> fused(mesh, options), plain(mesh, options);
    fused.optimizer().fuse_with_reduction();
    for (int step = 0; step < 2; ++step)
      for (Training<float>* training : {&fused, &plain}) {
        training->backward_all();
        training->optimizer().step();
      }
    EXPECT_EQ(whole_parameter(fused.module(0), "weight"), whole_parameter(plain.module(0), "weight"));
    EXPECT_EQ(whole_parameter(fused.module(1), "weight"), whole_parameter(plain.module(1), "weight"));
  });
}

TEST(FusedUpdate, UntilTheStepWeightsAndGradientsAreGone) {
  for_all_recipes([](const buffer::MeshPtr& mesh, Recipe recipe) {
    Options options;
    options.config = make_config(recipe);
    Training<double> training(mesh, options);
    training.optimizer().fuse_with_reduction();
    training.step();
    training.backward_all();
    FsdpModule& module = training.module(0);
    const std::initializer_list<std::string> words{"layer0", "while"};
    expect_error(
        Status::INVALID_STATE, [&] { module.pre_forward(); }, words);
    expect_error(
        Status::INVALID_STATE, [&] { module.unshard(); }, words);
    expect_error(
        Status::INVALID_STATE, [&] { training.context().begin_inference(); }, words);
    expect_error(
        Status::INVALID_STATE, [&] { module.main_gradient("weight", DType::f64); }, words);
    expect_error(
        Status::INVALID_STATE, [&] { training.optimizer().gradient_norm(); }, words);
    expect_error(
        Status::INVALID_STATE, [&] { training.optimizer().scale_gradients(2); }, words);
    training.optimizer().step();
    training.plain_step();
    training.expect_equal(1e-12);
    expect_error(Status::INVALID_STATE, [&] { training.optimizer().step(); }, {"gradient"});
    training.expect_usable("a refused use of weights");
  });
}

// Before the last micro-batch nothing is updated, so everything stays usable.
TEST(FusedUpdate, AFailureBeforeTheLastMicroBatch) {
  for_all_recipes([](const buffer::MeshPtr& mesh, Recipe recipe) {
    Options options;
    options.config = make_config(recipe);
    Training<double> training(mesh, options);
    training.optimizer().fuse_with_reduction();
    training.step();
    for (const int stop : {0, 7, 13, 16}) {
      training.context().zero_grad();
      training.context().set_last_microbatch(false);
      training.pass(0, rank == 0 ? stop : -1);
      if (rank == 0)
        training.context().fail_step("rank 0 has had enough");
      expect_error(Status::USER_FAILURE, [&] { training.context().finish_backward(); }, {"enough"});
      training.expect_usable("a failure");
    }
  });
}

// In the last one weights may be between two steps, here and there: the same end everywhere.
TEST(FusedUpdate, AFailureInTheLastMicroBatchEndsTheContext) {
  for (const int stop : {0, 7, 13, 16})
    for_all_recipes([stop](const buffer::MeshPtr& mesh, Recipe recipe) {
      Options options;
      options.config = make_config(recipe);
      options.micro_batches = 2;
      Training<double> training(mesh, options);
      training.optimizer().fuse_with_reduction();
      training.step();
      training.context().zero_grad();
      training.context().set_last_microbatch(false);
      training.pass(0);
      training.context().finish_backward();
      training.context().set_last_microbatch(true);
      training.pass(1, rank == 0 ? stop : -1);
      if (rank == 0)
        training.context().fail_step("rank 0 has had enough");
      expect_error(Status::USER_FAILURE, [&] { training.context().finish_backward(); }, {"enough", "two steps"});
      expect_error(Status::FAILED, [&] { training.module(0).pre_forward(); }, {"enough"});
      expect_error(Status::FAILED, [&] { training.optimizer().step(); }, {"enough"});
    });
}

TEST(FusedUpdate, OneOptimizerAtATime) {
  Training<double> training(make_mesh(), Options{});
  const auto other = optim::make_sgd(training.context().named_states(), {0.25, 0, 0});
  training.optimizer().fuse_with_reduction();
  expect_error(Status::INVALID_STATE, [&] { other->fuse_with_reduction(); }, {"layer0.weight", "another optimizer"});
  training.backward_all();
  expect_error(Status::INVALID_STATE, [&] { other->step(); }, {"layer0.weight", "while it was reduced"});
  training.optimizer().step();
  training.plain_step();
  training.expect_equal(1e-12);
  const std::vector<double> values(8 * 16, 0.5);
  training.backward_all();
  expect_error(Status::INVALID_STATE,
               [&] { training.module(0).set_parameter("weight", values.data(), 8 * 16, DType::f64); },
               {"layer0", "while"});
  training.optimizer().step();
}

TEST(FusedUpdate, AnOptimizerThatIsGoneUpdatesNothing) {
  Training<double> training(make_mesh(), Options{});
  const auto other = optim::make_sgd(training.context().named_states(), {0.25, 0, 0});
  {
    const auto gone = optim::make_sgd(training.context().named_states(), {0.5, 0, 0});
    gone->fuse_with_reduction();
  }
  training.step();
  training.expect_equal(1e-12);
}

} // namespace
} // namespace ostraka::fsdp::test
