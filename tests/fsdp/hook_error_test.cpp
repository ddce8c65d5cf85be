// SPDX-License-Identifier: Apache-2.0
// Hooks and accesses at the wrong time: refused by name, without an effect on the step.
#include "vectors.hpp"

#include <functional>

namespace ostraka::fsdp::test {
namespace {

Options make_options(Recipe recipe) {
  Options options;
  options.net = mlp({3, 5, 2});
  options.config = make_config(recipe);
  return options;
}

struct Action {
  const char* name;
  std::function<void()> run;
};

/// Everything that module 0 refuses in `phase` while it is not pinned.
std::vector<Action> refused(Training<double>& t, FsdpModule::Phase phase) {
  FsdpModule& m = t.module(0);
  using Phase = FsdpModule::Phase;
  std::vector<Action> actions;
  if (phase != Phase::resting) {
    if (phase == Phase::forward) // else a recomputation
      actions.push_back({"pre_forward", [&m] { m.pre_forward(); }});
    actions.push_back({"pre_backward", [&m] { m.pre_backward(); }});
    actions.push_back({"begin_inference", [&t] { t.context().begin_inference(); }});
    actions.push_back({"in use", [&t] { t.optimizer().step(); }});
  } else {
    actions.push_back({"parameter", [&m] { m.parameter("weight", DType::f64); }});
  }
  if (phase != Phase::forward)
    actions.push_back({"post_forward", [&m] { m.post_forward(); }});
  if (phase != Phase::backward) {
    actions.push_back({"post_backward", [&m] { m.post_backward(); }});
    actions.push_back({"gradient", [&m] { m.gradient("weight", DType::f64); }});
  }
  actions.push_back({"reshard", [&m] { m.reshard(); }});
  actions.push_back({"end_inference", [&t] { t.context().end_inference(); }});
  return actions;
}

void expect_refused(Training<double>& t, FsdpModule::Phase phase) {
  SCOPED_TRACE(name(phase));
  EXPECT_EQ(t.module(0).phase(), phase);
  for (const Action& action : refused(t, phase)) {
    SCOPED_TRACE(action.name);
    expect_error(Status::INVALID_STATE, action.run, {action.name});
    EXPECT_EQ(t.module(0).phase(), phase);
  }
  for (const char* name : {"parameter", "gradient"}) {
    const bool is_parameter = *name == 'p';
    const auto ask = [&](const char* parameter, DType dtype) {
      is_parameter ? static_cast<void>(t.module(0).parameter(parameter, dtype))
                   : static_cast<void>(t.module(0).gradient(parameter, dtype));
    };
    expect_error(Status::INVALID_ARGUMENT, [&] { ask("wait", DType::f64); }, {"layer0", "wait"});
    if (phase == FsdpModule::Phase::backward || (is_parameter && phase == FsdpModule::Phase::forward))
      for (const DType wrong : {DType::f32, DType::bf16, DType::i64})
        expect_error(Status::TYPE_MISMATCH, [&] { ask("weight", wrong); },
                     {"layer0.weight", "f64", ostraka::name(wrong)});
  }
}

TEST(HookErrors, EveryHookInEveryWrongPhase) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.expect_usable("nothing");
    using Phase = FsdpModule::Phase;
    t.context().zero_grad();
    expect_refused(t, Phase::resting);
    expect_error(Status::INVALID_STATE, [&] { t.module(0).pre_backward(); }, {"pre_backward", "layer0", "no forward"});
    t.module(0).pre_forward();
    expect_refused(t, Phase::forward);
    t.module(0).post_forward();
    expect_refused(t, Phase::resting);
    t.module(1).pre_forward();
    expect_refused(t, Phase::resting);
    t.module(1).post_forward();
    for (const int m : {1, 0}) {
      t.module(m).pre_backward();
      expect_refused(t, m == 0 ? Phase::backward : Phase::resting);
      for (const char* name : {"weight", "bias"})
        write(t.module(m), name, 0);
      t.module(m).post_backward();
    }
    expect_refused(t, Phase::resting);
    expect_error(Status::INVALID_STATE, [&] { t.module(0).pre_backward(); }, {"pre_backward", "layer0"});
    t.context().finish_backward();
    expect_refused(t, Phase::resting);
    t.expect_usable("hooks in wrong phases");
  }
}

TEST(HookErrors, OptimizerStepWithoutGradients) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"layer0.weight", "gradient"});
    t.expect_usable("an update without gradients");
    t.context().zero_grad();
    expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"layer0.weight"});
    expect_error(Status::INVALID_STATE, [&] { t.module(0).main_gradient("weight", DType::f64); }, {"layer0.weight"});
    t.expect_usable("an update after zero_grad");
  }
}

TEST(HookErrors, OptimizerStepBeforeTheLastMicroBatch) {
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options(Recipe::no_shard));
  t.context().set_last_microbatch(false);
  t.pass(0);
  t.context().finish_backward();
  expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"layer0.weight", "set_last_microbatch"});
  expect_error(Status::INVALID_STATE, [&] { t.module(0).main_gradient("weight", DType::f64); }, {"layer0.weight"});
  t.expect_usable("an update before the last micro-batch");
}

// Reductions are in flight until finish_backward: nobody may read their results before.
TEST(HookErrors, OptimizerStepBeforeFinishBackward) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.context().zero_grad();
    t.pass(0);
    expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"layer0.weight", "finish_backward"});
    expect_error(Status::INVALID_STATE, [&] { t.module(0).main_gradient("weight", DType::f64); }, {"layer0.weight"});
    t.context().finish_backward();
    t.optimizer().step();
    t.plain_step();
    t.expect_equal(1e-12, text(recipe));
  }
}

TEST(HookErrors, BackwardAfterTheReductionWithoutZeroGrad) {
  const auto mesh = make_mesh();
  for (const bool gives_up : {false, true}) {
    Training<double> t(mesh, make_options(Recipe::no_shard));
    t.expect_usable("nothing");
    for (int m = 0; m < 2; ++m) {
      t.module(m).pre_forward();
      t.module(m).post_forward();
    }
    expect_error(Status::INVALID_STATE, [&] { t.module(1).pre_backward(); }, {"layer1", "zero_grad"});
    EXPECT_EQ(t.module(1).phase(), FsdpModule::Phase::resting);
    if (gives_up) { // what a caller does with an error inside a step
      t.context().fail_step("no zero_grad");
      expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); }, {"no zero_grad", "rank 0"});
    } else {
      t.context().finish_backward(); // the forward pass was an evaluation
    }
    t.expect_usable("a backward pass without zero_grad");
  }
}

TEST(HookErrors, ZeroGradInsideABackwardPass) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.pass(0, 4); // forward is complete
    t.context().zero_grad();
    t.context().finish_backward();
    for (int stop = 5; !t.pass(0, stop); ++stop) {
      expect_error(Status::INVALID_STATE, [&] { t.context().zero_grad(); }, {"zero_grad", "backward pass"});
      t.context().fail_step("broken off");
      expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); });
    }
    t.context().finish_backward();
    t.expect_usable("zero_grad inside a backward pass");
  }
}

// A rank that fails knows what it owes the others only within one micro-batch.
TEST(HookErrors, ForwardPassBeforeFinishBackward) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.pass(0); // all hooks of one micro-batch but finish_backward
    expect_error(Status::INVALID_STATE, [&] { t.module(0).pre_forward(); }, {"layer0", "finish_backward"});
    t.context().finish_backward();
    t.context().zero_grad();
    t.expect_usable("a forward pass before finish_backward");
  }
}

TEST(HookErrors, AMissingGradientIsReportedOnAllRanks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int failing : {-1, 0, ranks - 1}) { // -1: all
      Training<double> t(mesh, make_options(recipe));
      for (int round = 0; round < 2; ++round) {
        t.context().zero_grad();
        for (int m = 0; m < 2; ++m) {
          t.module(m).pre_forward();
          t.module(m).post_forward();
        }
        for (const int m : {1, 0}) {
          t.module(m).pre_backward();
          for (const char* name : {"weight", "bias"})
            if (m != 0 || *name != 'b' || (failing != -1 && failing != rank))
              write(t.module(m), name, 1);
          t.module(m).post_backward();
        }
        EXPECT_EQ(t.context().has_failed_step(), failing == -1 || failing == rank);
        expect_error(Status::INVALID_STATE, [&] { t.context().finish_backward(); },
                     {"layer0", "bias", "no gradient", "rank " + std::to_string(std::max(failing, 0))});
        expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); });
        t.expect_usable("a missing gradient");
      }
    }
}

TEST(HookErrors, AModuleLeftOpenIsReportedOnAllRanks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int failing : {-1, 0, ranks - 1})
      for (const bool in_backward : {false, true}) {
        Training<double> t(mesh, make_options(recipe));
        const bool forgets = failing == -1 || failing == rank;
        t.context().zero_grad();
        const int last_event = t.events() - 1;
        t.pass(0, !forgets ? -1 : in_backward ? last_event - 1 : 1); // broken off inside layer0
        expect_error(Status::INVALID_STATE, [&] { t.context().finish_backward(); },
                     {"layer0", in_backward ? "backward phase" : "forward phase"});
        t.expect_usable("a module that was left open");
      }
}

TEST(HookErrors, MoreForwardThanBackwardPasses) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.context().zero_grad();
    t.module(0).pre_forward();
    t.module(0).post_forward();
    t.module(0).pre_forward();
    t.module(0).post_forward();
    t.module(0).pre_backward();
    for (const char* name : {"weight", "bias"})
      write(t.module(0), name, 1);
    t.module(0).post_backward();
    expect_error(Status::INVALID_STATE, [&] { t.context().finish_backward(); }, {"layer0", "2 times", "1 times"});
    t.expect_usable("more forward than backward passes");
  }
}

TEST(HookErrors, UnshardKeepsWeightsOverHooks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe));
    t.module(0).unshard();
    const auto* weight = t.module(0).parameter("weight", DType::f64);
    expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"layer0", "unshard"});
    t.backward_all();
    EXPECT_EQ(t.module(0).parameter("weight", DType::f64), weight);
    EXPECT_EQ(elements_at(weight, 1, DType::f64)[0], t.plain_weights()[0][0]);
    expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"layer0", "unshard"});
    t.module(0).reshard();
    expect_error(Status::INVALID_STATE, [&] { t.module(0).reshard(); }, {"layer0"});
    expect_error(Status::INVALID_STATE, [&] { t.module(0).parameter("weight", DType::f64); }, {"layer0.weight"});
    t.module(0).unshard();
    t.module(0).pre_forward();
    t.module(0).reshard(); // the hook still needs them
    EXPECT_NE(t.module(0).parameter("weight", DType::f64), nullptr);
    t.module(0).post_forward();
    expect_error(Status::INVALID_STATE, [&] { t.module(0).parameter("weight", DType::f64); }, {"layer0.weight"});
    t.context().finish_backward();
    EXPECT_EQ(t.context().memory().transient, 0);
    t.expect_usable("unshard and reshard");
  }
}

TEST(HookErrors, MainGradientOfAnotherType) {
  const auto mesh = make_mesh();
  Training<double> t(mesh, make_options(Recipe::zero_3));
  t.backward_all();
  expect_error(Status::TYPE_MISMATCH, [&] { t.module(0).main_gradient("bias", DType::f32); },
               {"layer0.bias", "f64", "f32"});
  expect_error(Status::INVALID_ARGUMENT, [&] { t.module(0).main_gradient("x", DType::f64); }, {"layer0", "x"});
}

} // namespace
} // namespace ostraka::fsdp::test
