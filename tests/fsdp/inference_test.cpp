// SPDX-License-Identifier: Apache-2.0
// Evaluation between begin_inference and end_inference: any number of passes on any rank.
#include "network.hpp"

#include <functional>

namespace ostraka::fsdp::test {
namespace {

Options make_options(Recipe recipe) {
  Options options;
  options.net = mlp({3, 6, 2});
  options.config = make_config(recipe);
  return options;
}

/// One forward pass; its weights are those of the twin.
template <class T>
void evaluate(Training<T>& t, double tolerance = 1e-12) {
  for (int m = 0; m < t.num_modules(); ++m) {
    t.module(m).pre_forward();
    for (const char* name : {"weight", "bias"})
      expect_close(elements_at(t.module(m).parameter(name, t.compute_dtype()),
                               layout::numel(t.module(m).spec(name).shape), t.compute_dtype()),
                   t.plain_weights()[2 * m + (*name == 'b')], tolerance, name);
    t.module(m).post_forward();
  }
}

TEST(Inference, DifferentNumbersOfPassesOnTheRanks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    for (int round = 0; round < 3; ++round) {
      t.context().begin_inference();
      EXPECT_TRUE(t.context().is_in_inference());
      for (int pass = 0; pass < (rank == 0 ? 10 : 7); ++pass)
        evaluate(t);
      t.context().end_inference();
      EXPECT_FALSE(t.context().is_in_inference());
      EXPECT_EQ(t.context().memory().transient, 0);
      t.expect_usable("inference"); // and the next round sees the new weights
    }
  }
}

TEST(Inference, OfSixteenBitWeights) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Options options = make_options(recipe);
    options.storage = DType::bf16;
    Training<float> t(mesh, options);
    t.context().begin_inference();
    for (int pass = 0; pass < 1 + rank; ++pass)
      evaluate(t, 0); // the initial values are exact
    t.context().end_inference();
    EXPECT_EQ(t.context().memory().transient, 0);
  }
}

TEST(Inference, NoPassesAtAll) {
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options(Recipe::zero_3));
  t.context().begin_inference();
  EXPECT_NE(t.module(1).parameter("weight", DType::f64), nullptr); // readable without hooks
  t.context().end_inference();
  t.expect_usable("inference without a pass");
}

TEST(Inference, WhatIsNotAllowedInside) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.expect_usable("nothing");
    expect_error(Status::INVALID_STATE, [&] { t.context().end_inference(); }, {"begin_inference"});
    t.context().begin_inference();
    const std::vector<double> values(2, 0.0);
    const auto refuses = [&](std::function<void()> action, std::initializer_list<std::string> parts) {
      expect_error(Status::INVALID_STATE, action, parts);
    };
    refuses([&] { t.context().begin_inference(); }, {"already"});
    refuses([&] { t.context().finish_backward(); }, {"finish_backward", "inference"});
    refuses([&] { t.module(0).pre_backward(); }, {"pre_backward", "layer0", "inference"});
    refuses([&] { t.module(0).post_backward(); }, {"post_backward", "layer0"});
    refuses([&] { t.module(0).post_forward(); }, {"post_forward", "layer0"});
    refuses([&] { t.module(0).gradient("bias", DType::f64); }, {"gradient"});
    refuses([&] { t.module(0).reshard(); }, {"reshard"});
    refuses([&] { t.optimizer().step(); }, {"layer0", "inference"});
    refuses([&] { t.module(1).set_parameter("bias", values.data(), 2, DType::f64); }, {"layer1", "inference"});
    evaluate(t);
    t.module(0).pre_forward();
    refuses([&] { t.module(0).pre_forward(); }, {"pre_forward", "layer0"});
    t.module(0).post_forward();
    t.context().end_inference();
    t.expect_usable("errors in inference");
  }
}

TEST(Inference, EndsAPassThatWasBrokenOff) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.context().begin_inference();
    evaluate(t);
    if (rank == ranks - 1)
      t.module(1).pre_forward(); // and no post_forward
    t.context().end_inference();
    EXPECT_EQ(t.module(1).phase(), FsdpModule::Phase::resting);
    expect_error(Status::INVALID_STATE, [&] { t.module(1).parameter("weight", DType::f64); });
    EXPECT_EQ(t.context().memory().transient, 0);
    t.expect_usable("a broken-off evaluation");
  }
}

TEST(Inference, BetweenForwardAndBackward) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Options options = make_options(recipe);
    options.micro_batches = 2;
    Training<double> t(mesh, options);
    t.expect_usable("nothing");
    t.context().zero_grad();
    t.context().set_last_microbatch(false);
    t.pass(0);
    t.context().finish_backward();
    t.context().begin_inference(); // between micro-batches
    for (int pass = 0; pass <= rank; ++pass)
      evaluate(t);
    t.context().end_inference();
    t.context().set_last_microbatch(true);
    t.pass(1);
    t.context().finish_backward();
    t.optimizer().step();
    t.plain_step();
    t.expect_equal(1e-12);
  }
}

TEST(Inference, KeepsWhatWasUnshardedBefore) {
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options(Recipe::zero_3));
  t.module(0).unshard();
  t.context().begin_inference();
  t.context().end_inference();
  EXPECT_NE(t.module(0).parameter("weight", DType::f64), nullptr);
  t.module(0).reshard();
  EXPECT_EQ(t.context().memory().transient, 0);
  t.context().begin_inference();
  t.module(1).unshard();
  t.module(1).reshard(); // inference still needs it
  evaluate(t);
  t.context().end_inference();
  EXPECT_EQ(t.context().memory().transient, 0);
  t.expect_usable("unshard around inference");
}

TEST(Inference, AfterAFailedStep) {
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options(Recipe::zero_3));
  t.expect_usable("nothing");
  if (!t.pass(0, rank == 0 ? 2 : -1))
    t.context().fail_step("broken off");
  expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); }, {"broken off"});
  t.context().begin_inference();
  for (int pass = 0; pass <= rank; ++pass)
    evaluate(t);
  t.context().end_inference();
  t.expect_usable("a failed step and inference");
}

} // namespace
} // namespace ostraka::fsdp::test
