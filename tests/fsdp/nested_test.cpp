// SPDX-License-Identifier: Apache-2.0
// Modules inside modules, tied parameters, and modules that a micro-batch leaves out.
#include "vectors.hpp"

namespace ostraka::fsdp::test {
namespace {

using layout::ReduceOp;

/// model{left{inner}, right}: sizes 5, 4, 3 and 6; "model" has parameters of its own or none.
struct Family {
  Family(const buffer::MeshPtr& mesh, ContextConfig config, bool has_own)
      : context(FsdpContext::create(mesh, config)), model(context->add_module("model")), left(model.add_module("left")),
        right(model.add_module("right")), inner(left.add_module("inner")), has_own(has_own) {
    if (has_own)
      with_vectors(model, {{"w", 5}});
    with_vectors(left, {{"w", 4}});
    with_vectors(right, {{"w", 6}});
    with_vectors(inner, {{"w", 3}});
    for (FsdpModule* module : with_parameters())
      module->set_parameter("w", constant(size_of_parameter(*module, "w"), module->id() + 1).data(),
                            size_of_parameter(*module, "w"), DType::f64);
    context->finalize();
  }

  std::vector<FsdpModule*> with_parameters() {
    return has_own ? std::vector<FsdpModule*>{&model, &left, &right, &inner}
                   : std::vector<FsdpModule*>{&left, &right, &inner};
  }
  void expect_weights(FsdpModule& module) {
    const std::int64_t size = size_of_parameter(module, "w");
    EXPECT_EQ(elements_at(module.parameter("w", DType::f64), size, DType::f64), constant(size, module.id() + 1));
  }

  /// Broken off before hook `stop`; returns whether all ran. A container's hooks may be left out.
  bool pass(double value, int stop = -1) {
    int event = 0;
    const auto run = [&](FsdpModule& module, void (FsdpModule::*hook)()) {
      if (event++ == stop)
        return false;
      (module.*hook)();
      return true;
    };
    using M = FsdpModule;
    const auto enter = [&](M& m) { return run(m, &M::pre_forward); };
    const auto leave = [&](M& m) { return run(m, &M::post_forward); };
    const auto back = [&](M& m) {
      if (!run(m, &M::pre_backward))
        return false;
      if (!m.groups().empty())
        write(m, "w", value);
      return true;
    };
    const auto done = [&](M& m) { return run(m, &M::post_backward); };
    return enter(model) && enter(left) && enter(inner) && leave(inner) && leave(left) && enter(right) && leave(right) &&
           leave(model) && back(model) && back(right) && done(right) && back(left) && back(inner) && done(inner) &&
           done(left) && done(model);
  }
  void expect_step(double value) {
    context->zero_grad();
    ASSERT_TRUE(pass(value));
    context->finish_backward();
    for (FsdpModule* module : with_parameters())
      expect_gradient(*module, "w", value * ranks);
  }

  std::shared_ptr<FsdpContext> context;
  FsdpModule &model, &left, &right, &inner;
  bool has_own;
};

TEST(Nested, NamesAndFamilies) {
  const auto mesh = make_mesh();
  Family f(mesh, make_config(Recipe::zero_3), true);
  EXPECT_EQ(f.inner.name(), "inner");
  EXPECT_EQ(f.inner.full_name(), "model.left.inner");
  EXPECT_EQ(f.inner.parent(), &f.left);
  EXPECT_EQ(f.model.parent(), nullptr);
  EXPECT_EQ(f.model.children(), (std::vector<FsdpModule*>{&f.left, &f.right}));
  const auto states = f.context->named_states();
  EXPECT_EQ(states[3].tensor_names, std::vector<std::string>{"model.left.inner.w"}); // as they were added
  expect_error(Status::INVALID_STATE, [&] { f.left.add_module("late"); }, {"'late'", "finalised"});
  expect_error(Status::INVALID_ARGUMENT, [&] { f.inner.parameter("x", DType::f64); }, {"'model.left.inner'"});
}

TEST(Nested, NamesAreDistinctAmongSiblings) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& root = context->add_module("root");
  root.add_module("a").add_module("a");
  context->add_module("a");
  expect_error(Status::INVALID_ARGUMENT, [&] { root.add_module("a"); }, {"'root.a'", "exists"});
  with_vectors(root, {{"b.w", 3}});
  with_vectors(root.add_module("b"), {{"w", 3}});
  expect_error(Status::INVALID_ARGUMENT, [&] { context->finalize(); }, {"'root.b.w'"});
}

TEST(Nested, StepsOfAModuleAroundItsChildren) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool has_own : {false, true}) {
      Family f(mesh, make_config(recipe, ReduceOp::sum), has_own);
      for (int step = 1; step <= 3; ++step)
        f.expect_step(step);
      EXPECT_EQ(f.context->memory().transient, 0);
    }
}

// The outer module stays readable while inner ones run, and what comes next is gathered with it.
TEST(Nested, WeightsOfAllOpenModulesAreThere) {
  const auto mesh = make_mesh();
  Family f(mesh, make_config(Recipe::zero_3, ReduceOp::sum), true);
  f.model.pre_forward();
  f.left.pre_forward();
  f.inner.pre_forward();
  for (FsdpModule* module : {&f.model, &f.left, &f.inner})
    f.expect_weights(*module);
  f.inner.post_forward();
  f.left.post_forward();
  f.expect_weights(f.model);
  expect_error(Status::INVALID_STATE, [&] { f.left.parameter("w", DType::f64); }, {"model.left.w", "sharded"});
  f.right.pre_forward();
  f.expect_weights(f.right);
  f.right.post_forward();
  f.model.post_forward();
  f.context->finish_backward();
  f.expect_step(1);
}

TEST(Nested, AContainersHooksMayBeLeftOut) {
  const auto mesh = make_mesh();
  Family f(mesh, make_config(Recipe::zero_3, ReduceOp::sum), false);
  for (int step = 0; step < 2; ++step) {
    f.context->zero_grad();
    for (FsdpModule* module : {&f.left, &f.inner, &f.right})
      forward(*module);
    for (FsdpModule* module : {&f.right, &f.left, &f.inner})
      backward(*module, 2);
    f.context->finish_backward();
    expect_gradient(f.inner, "w", 2.0 * ranks);
  }
  f.expect_step(1);
}

// The reduction of an outer module comes behind those of its children, also on a rank that failed.
TEST(Nested, FailuresAnywhere) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool has_own : {false, true})
      for (const bool is_first : {false, true}) {
        std::optional<Family> f;
        for (int stop = 0; stop < 16; ++stop) {
          if (is_first || stop == 0)
            f.emplace(mesh, make_config(recipe, ReduceOp::sum), has_own);
          if (!is_first && stop == 0)
            f->expect_step(1);
          SCOPED_TRACE("event " + std::to_string(stop));
          f->context->zero_grad();
          if (!f->pass(1, rank == stop % ranks ? stop : -1))
            f->context->fail_step("stopped");
          expect_error(Status::USER_FAILURE, [&] { f->context->finish_backward(); }, {"stopped"});
          f->expect_step(2);
        }
      }
}

// Other shapes on all levels, without knowledge of the order: what is whole at a time fits what finalize reserved.
TEST(Nested, FinalizeReservesWhatIsWholeTogether) {
  if (shares_weights())
    GTEST_SKIP() << "nothing is gathered";
  const auto mesh = make_mesh();
  for (const std::optional<std::int64_t> budget : {std::optional<std::int64_t>(), {0}, {7000}, {100000}}) {
    ContextConfig config = make_config(Recipe::zero_3);
    config.prefetch = budget;
    const auto context = FsdpContext::create(mesh, config);
    FsdpModule& model = with_vectors(context->add_module("model"), {{"w", 3000}});
    std::vector<FsdpModule*> layers;
    for (int k = 0; k < 5; ++k)
      layers.push_back(&with_vectors(model.add_module("layer" + std::to_string(k)), {{"w", 2000 + 1000 * (k % 3)}}));
    context->finalize();
    const std::int64_t reserved = context->memory().reserved;
    for (int pass = 0; pass < 2; ++pass) {
      model.pre_forward();
      for (FsdpModule* layer : layers)
        forward(*layer);
      model.post_forward();
    }
    context->finish_backward();
    EXPECT_EQ(context->memory().reserved, reserved) << budget.value_or(-1);
  }
}

// --- tied parameters

TEST(Tied, Case22EveryUseContributes) { // weight (5, 2) under two names: gradient 1 from each use
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    const auto context = FsdpContext::create(mesh, make_config(recipe));
    FsdpModule& module = context->add_module("tied");
    module.add_parameter({"embedding", {5, 2}, DType::f64, true});
    module.tie_parameter("head", "embedding");
    module.tie_parameter("again", "head");
    module.build();
    const std::vector<double> values = constant(10, 3);
    module.set_parameter("head", values.data(), 10, DType::f64);
    context->finalize();
    ASSERT_EQ(context->named_states().size(), 1u);
    EXPECT_EQ(context->named_states()[0].tensor_names, std::vector<std::string>{"tied.embedding"});
    EXPECT_EQ(context->memory().num_elements, 10);
    EXPECT_EQ(module.spec("again").shape, (layout::Shape{5, 2}));
    forward(module);
    module.pre_backward();
    EXPECT_EQ(module.parameter("head", DType::f64), module.parameter("embedding", DType::f64));
    EXPECT_EQ(write(module, "head", 1), 0);
    EXPECT_EQ(write(module, "embedding", 1), 1);
    module.post_backward();
    context->finish_backward(); // nothing is missing
    for (const char* name : {"embedding", "head", "again"})
      expect_gradient(module, name, 2);
    optim::make_sgd(context->named_states(), {.learning_rate = 0.5})->step();
    EXPECT_EQ(whole_parameter(module, "head"), constant(10, 2));
  }
}

TEST(Tied, OneOwner) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& root = context->add_module("root");
  FsdpModule& owner = root.add_module("embedding");
  FsdpModule& head = context->add_module("head");
  owner.add_parameter({"weight", {3}, DType::f64, true});
  head.add_parameter({"bias", {3}, DType::f64, true});
  for (const char* existing : {"root.embedding.weight", "weight"})
    expect_error(Status::INVALID_ARGUMENT, [&] { head.tie_parameter("w", existing); },
                 {"'head'", "owned by module 'root.embedding'", "one owner"});
  expect_error(Status::INVALID_ARGUMENT, [&] { head.tie_parameter("w", "nobody"); }, {"'head'", "'nobody'", "'bias'"});
  expect_error(Status::INVALID_ARGUMENT, [&] { head.tie_parameter("bias", "bias"); }, {"'bias'", "exists"});
  expect_error(Status::INVALID_ARGUMENT, [&] { head.tie_parameter("", "bias"); }, {"empty"});
  head.tie_parameter("b", "bias");
  expect_error(Status::INVALID_ARGUMENT, [&] { head.add_parameter({"b", {3}, DType::f64, true}); }, {"'b'", "exists"});
  owner.build();
  head.build();
  expect_error(Status::INVALID_STATE, [&] { head.tie_parameter("c", "bias"); }, {"'c'", "after build"});
  context->finalize();
  EXPECT_EQ(context->named_states().size(), 2u);
}

TEST(Tied, RanksAgree) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& module = context->add_module("m");
  module.add_parameter({"a", {3}, DType::f64, true});
  if (rank == 0)
    module.tie_parameter("b", "a");
  expect_error(Status::RANKS_DISAGREE, [&] { module.build(); }, {"'m'", "tied"});
}

TEST(Build, NamesTheFirstParameterThatDiffers) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& module = context->add_module("m");
  for (const char* name : {"a", "b", "c"})
    module.add_parameter({name, {rank == 0 && *name != 'a' ? 4 : 3, 2}, DType::f64, true});
  const std::string here = rank == 0 ? "'b' (4, 2) f64 trainable" : "'b' (3, 2) f64 trainable";
  expect_error(Status::RANKS_DISAGREE, [&] { module.build(); }, {"'m'", "parameter 1", here});
}

// --- modules that are left out

struct Three {
  Three(const buffer::MeshPtr& mesh, Recipe recipe, bool allow)
      : context(FsdpContext::create(mesh, make_config(recipe, ReduceOp::sum))) {
    for (const char* name : {"a", "b", "c"})
      modules.push_back(&with_vectors(context->add_module(name), {{"w", 5}}));
    modules[1]->set_allow_unused(allow);
    context->finalize();
  }
  void pass(const std::vector<int>& used, double value) {
    for (const int m : used)
      forward(*modules[m]);
    for (auto m = used.rbegin(); m != used.rend(); ++m)
      backward(*modules[*m], value);
  }
  void expect_gradients(const std::vector<double>& expected) {
    for (int m = 0; m < 3; ++m)
      expect_gradient(*modules[m], "w", expected[m] * ranks);
  }

  std::shared_ptr<FsdpContext> context;
  std::vector<FsdpModule*> modules;
};

TEST(Unused, ContributesZero) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Three t(mesh, recipe, true);
    for (int step = 0; step < 2; ++step) {
      t.context->zero_grad();
      t.pass({0, 2}, 3);
      t.context->finish_backward();
      t.expect_gradients({3, 0, 3});
      t.context->zero_grad();
      t.context->set_last_microbatch(false);
      t.pass({0, 1, 2}, 3);
      t.context->finish_backward();
      t.context->set_last_microbatch(true);
      t.pass({0, 2}, 4);
      t.context->finish_backward();
      t.expect_gradients({7, 3, 7}); // what an earlier micro-batch wrote counts
    }
    EXPECT_EQ(t.context->memory().transient, 0);
  }
}

TEST(Unused, ForwardAloneOrPartOfTheGradients) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Three t(mesh, recipe, true);
    for (FsdpModule* module : t.modules)
      forward(*module);
    backward(*t.modules[2], 1);
    backward(*t.modules[0], 1);
    t.context->finish_backward();
    t.expect_gradients({1, 0, 1});
    t.context->zero_grad();
    for (FsdpModule* module : t.modules)
      forward(*module);
    backward(*t.modules[2], 1);
    backward(*t.modules[1], 1, {}); // asks for no gradient
    backward(*t.modules[0], 1);
    t.context->finish_backward();
    t.expect_gradients({1, 0, 1});
  }
}

TEST(Unused, IsAnErrorUnlessAllowed) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool goes_forward : {false, true}) {
      Three t(mesh, recipe, false);
      for (int round = 0; round < 2; ++round) {
        t.context->zero_grad();
        for (const int m : {0, 1, 2})
          if (m != 1 || goes_forward)
            forward(*t.modules[m]);
        backward(*t.modules[2], 1);
        backward(*t.modules[0], 1);
        expect_error(Status::INVALID_STATE, [&] { t.context->finish_backward(); },
                     {"'b'", goes_forward ? "went forward 1 times but backward 0" : "parameter 'w'", "allow_unused"});
        expect_error(Status::INVALID_STATE, [&] { t.modules[0]->main_gradient("w", DType::f64); });
        t.pass({0, 1, 2}, 2);
        t.context->finish_backward();
        t.expect_gradients({2, 2, 2});
      }
    }
}

TEST(Unused, ForwardPassesAloneAreNoTraining) {
  const auto mesh = make_mesh();
  Three t(mesh, Recipe::zero_3, false);
  forward(*t.modules[0]);
  forward(*t.modules[1]);
  t.context->finish_backward();
  expect_error(Status::INVALID_STATE, [&] { t.modules[0]->main_gradient("w", DType::f64); });
}

TEST(Unused, FrozenModulesNeedNothing) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& frozen = context->add_module("frozen");
  frozen.add_parameter({"w", {5}, DType::f64, false});
  frozen.build();
  FsdpModule& module = with_vectors(context->add_module("m"), {{"w", 5}});
  context->finalize();
  forward(frozen);
  forward(module);
  backward(module, 1);
  context->finish_backward();
  expect_gradient(module, "w", 1);
}

TEST(Unused, AFailedRankContributesAsWell) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Three t(mesh, recipe, true);
    t.pass({0, 2}, 1);
    t.context->finish_backward();
    for (const bool forgets_zero_grad : {true, false}) {
      if (!forgets_zero_grad)
        t.context->zero_grad();
      if (rank != 0 && !(forgets_zero_grad && recipe == Recipe::no_shard)) {
        t.pass({0, 2}, 1);
      } else if (rank != 0) {
        forward(*t.modules[0]);
        forward(*t.modules[2]);
        expect_error(Status::INVALID_STATE, [&] { t.modules[2]->pre_backward(); }, {"zero_grad"});
        t.context->fail_step("no zero_grad");
      } else {
        t.context->fail_step("stopped");
      }
      expect_error(Status::USER_FAILURE, [&] { t.context->finish_backward(); }, {"stopped"});
    }
    t.pass({0, 2}, 2);
    t.context->finish_backward();
    t.expect_gradients({2, 0, 2});
  }
}

TEST(Unused, SettingsAreComparedInFinalize) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& module = with_vectors(context->add_module("m"), {{"w", 5}});
  expect_error(Status::INVALID_ARGUMENT, [&] { module.set_prefetch(-1); }, {"'m'", "-1"});
  if (ranks > 1) {
    module.set_allow_unused(rank == 0);
    expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"allow_unused"});
    module.set_allow_unused(true);
    module.set_prefetch(rank);
    expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"prefetch"});
  }
  module.set_prefetch(std::nullopt);
  context->finalize();
  expect_error(Status::INVALID_STATE, [&] { module.set_allow_unused(false); }, {"'m'", "finalised"});
  expect_error(Status::INVALID_STATE, [&] { module.set_prefetch(1); }, {"'m'", "finalised"});
}

} // namespace
} // namespace ostraka::fsdp::test
