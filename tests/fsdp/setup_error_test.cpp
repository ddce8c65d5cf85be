// SPDX-License-Identifier: Apache-2.0
// What set-up refuses, on all ranks, and that it can go on.
#include "mistakes.hpp"

#include <functional>

namespace ostraka::fsdp::test {
namespace {

/// A module "m" of one f64 vector "a" of 5 that is built.
FsdpModule& add_simple(FsdpContext& context, const std::string& name = "m", std::int64_t count = 5) {
  FsdpModule& module = context.add_module(name);
  module.add_parameter({"a", {count}, DType::f64, true});
  module.build();
  return module;
}

/// One step on "a" of every given module with gradient 1, summed; weights must go down by the number of ranks.
void expect_trains(FsdpContext& context, const std::vector<FsdpModule*>& modules) {
  const auto optimizer = optim::make_sgd(context.named_states(), {.learning_rate = 1});
  std::vector<std::vector<double>> before;
  for (FsdpModule* module : modules)
    before.push_back(whole_parameter(*module, "a"));
  context.zero_grad();
  for (FsdpModule* module : modules) {
    module->pre_forward();
    module->post_forward();
  }
  for (auto module = modules.rbegin(); module != modules.rend(); ++module) {
    (*module)->pre_backward();
    const FsdpModule::Gradient g = (*module)->gradient("a", DType::f64);
    for (std::size_t i = 0; i < before[0].size(); ++i)
      contribute(static_cast<double*>(g.data) + i, g.beta, 1.0);
    (*module)->post_backward();
  }
  context.finish_backward();
  optimizer->step();
  for (std::size_t m = 0; m < modules.size(); ++m) {
    for (double& value : before[m])
      value -= ranks;
    EXPECT_EQ(whole_parameter(*modules[m], "a"), before[m]);
  }
}

ContextConfig sums(Recipe recipe) { return make_config(recipe, layout::ReduceOp::sum); }

TEST(SetUpErrors, Configurations) {
  const auto mesh = make_mesh();
  const auto refuses = [&](Status status, auto&& change, std::initializer_list<std::string> parts) {
    ContextConfig config;
    change(config);
    expect_error(
        status, [&] { FsdpContext::create(mesh, config); }, parts);
  };
  refuses(Status::INVALID_ARGUMENT, [](auto& c) { c.recipe = static_cast<Recipe>(7); }, {"recipe"});
  refuses(Status::INVALID_ARGUMENT, [](auto& c) { c.gradient_slots = 0; }, {"gradient_slots", "0"});
  refuses(Status::INVALID_ARGUMENT, [](auto& c) { c.gradient_slots = -3; }, {"gradient_slots", "-3"});
  refuses(Status::INVALID_ARGUMENT, [](auto& c) { c.gradient_slot_bytes = -1; }, {"gradient_slot_bytes", "-1"});
  refuses(Status::INVALID_ARGUMENT, [](auto& c) { c.reduction = static_cast<layout::ReduceOp>(7); },
          {"reduction", "7"});
  for (const DType dtype : {DType::bf16, DType::f16, DType::i32})
    refuses(Status::TYPE_MISMATCH, [&](auto& c) { c.main_dtype = dtype; }, {"main type", name(dtype)});
  expect_error(Status::INVALID_ARGUMENT, [&] { FsdpContext::create(nullptr); }, {"mesh"});
  const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
  FsdpModule& module = add_simple(*context);
  context->finalize();
  expect_trains(*context, {&module});
}

TEST(SetUpErrors, ABadConfigurationOfOneRankIsAnErrorOfAll) {
  const auto mesh = make_mesh();
  ContextConfig config;
  config.gradient_slots = rank == ranks - 1 ? 0 : 2;
  expect_error(Status::INVALID_ARGUMENT, [&] { FsdpContext::create(mesh, config); },
               {"gradient_slots", "rank " + std::to_string(ranks - 1)});
}

TEST(SetUpErrors, RanksWithDifferentConfigurations) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const auto refuses = [&](auto&& change, const std::string& name) {
    ContextConfig config;
    if (rank == 0)
      change(config);
    expect_error(Status::RANKS_DISAGREE, [&] { FsdpContext::create(mesh, config); },
                 {"configuration: " + name, "here"});
  };
  refuses([](auto& c) { c.recipe = Recipe::no_shard; }, "recipe");
  refuses([](auto& c) { c.reduction = layout::ReduceOp::sum; }, "reduction");
  refuses([](auto& c) { c.gradient_slots = 3; }, "gradient_slots");
  refuses([](auto& c) { c.gradient_slot_bytes = 0; }, "gradient_slot_bytes");
  refuses([](auto& c) { c.broadcast = true; }, "broadcast");
  refuses([](auto& c) { c.prefetch = 0; }, "prefetch");
  refuses([](auto& c) { c.unified_stream = true; }, "unified_stream");
  refuses([](auto& c) { c.main_dtype = DType::f64; }, "main_dtype");
  refuses([](auto& c) { c.compute_dtype = DType::f32; }, "compute_dtype");
  refuses([](auto& c) { c.reduction_dtype = DType::bf16; }, "reduction_dtype");
  refuses([](auto& c) { c.placements = placements_of(Recipe::zero_3, 1, layout::ReduceOp::mean); }, "placements");
}

TEST(SetUpErrors, HybridRecipesNeedTwoAxes) {
  const auto mesh = make_mesh();
  expect_error(Status::INVALID_ARGUMENT, [&] { FsdpContext::create(mesh, make_config(Recipe::hsdp)); },
               {"hsdp", "two axes", "found 1"});
}

TEST(SetUpErrors, PlacementsByHandBreakARule) {
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {1, ranks});
  ContextConfig config = make_config(Recipe::zero_3);
  config.placements = placements_of(Recipe::hsdp, 2, layout::ReduceOp::mean);
  config.placements->parameter = {layout::shard(), layout::shard()};
  expect_error(Status::INVALID_ARGUMENT, [&] { FsdpContext::create(mesh, config); }, {"axis 0", "optimizer state"});
}

TEST(SetUpErrors, NoShardHandsOutTheMainGradient) {
  const auto mesh = make_mesh();
  ContextConfig config = make_config(Recipe::no_shard);
  config.main_dtype = DType::f64;
  const auto context = FsdpContext::create(mesh, config);
  FsdpModule& module = context->add_module("m");
  module.add_parameter({"a", {5}, DType::f32, true});
  expect_error(Status::NOT_SUPPORTED, [&] { module.build(); }, {"'m'", "f32", "f64"});
}

TEST(SetUpErrors, Modules) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
  expect_error(Status::INVALID_ARGUMENT, [&] { context->add_module(""); }, {"empty"});
  FsdpModule& first = add_simple(*context, "first");
  expect_error(Status::INVALID_ARGUMENT, [&] { context->add_module("first"); }, {"'first'", "exists"});
  expect_error(Status::INVALID_STATE, [&] { first.build(); }, {"'first'", "twice"});
  FsdpModule& second = context->add_module("second");
  second.add_parameter({"a", {5}, DType::f64, true});
  expect_error(Status::INVALID_STATE, [&] { context->finalize(); }, {"'second'", "not built"});
  EXPECT_FALSE(context->is_finalized());
  second.build();
  context->finalize();
  expect_error(Status::INVALID_STATE, [&] { context->finalize(); }, {"finalised already"});
  expect_error(Status::INVALID_STATE, [&] { context->add_module("third"); }, {"'third'", "finalised"});
  expect_trains(*context, {&first, &second});
}

TEST(SetUpErrors, Parameters) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
  FsdpModule& module = context->add_module("m");
  expect_error(Status::INVALID_ARGUMENT, [&] { module.add_parameter({"", {1}, DType::f64, true}); }, {"'m'", "empty"});
  for (const DType dtype : {DType::f16, DType::i64, DType::i32, DType::u8})
    expect_error(Status::TYPE_MISMATCH,
                 [&] {
                   module.add_parameter({"a", {1}, dtype, true});
                 },
                 {"'m'", "'a'", name(dtype)});
  expect_error(Status::INVALID_ARGUMENT, [&] { module.add_parameter({"a", {3, -1}, DType::f64, true}); }, {"-1"});
  module.add_parameter({"a", {5}, DType::f64, true});
  expect_error(Status::INVALID_ARGUMENT,
               [&] {
                 module.add_parameter({"a", {2}, DType::f32, true});
               },
               {"'m'", "'a'", "exists"});
  const double value = 0;
  expect_error(Status::INVALID_STATE, [&] { module.set_parameter("a", &value, 1, DType::f64); },
               {"'m'", "'a'", "build"});
  module.build();
  expect_error(Status::INVALID_STATE,
               [&] {
                 module.add_parameter({"b", {5}, DType::f64, true});
               },
               {"'m'", "'b'", "build"});
  EXPECT_EQ(module.spec("a").shape, layout::Shape{5});
  expect_error(Status::INVALID_ARGUMENT, [&] { module.spec("b"); }, {"'m'", "'b'"});
  context->finalize();
  expect_trains(*context, {&module});
}

TEST(SetUpErrors, SetParameter) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    const auto context = FsdpContext::create(mesh, sums(recipe));
    FsdpModule& module = add_simple(*context);
    const std::vector<double> values{1, 2, 3, 4, 5};
    expect_error(Status::SHAPE_MISMATCH, [&] { module.set_parameter("a", values.data(), 4, DType::f64); },
                 {"m.a", "5", "4"});
    expect_error(Status::SHAPE_MISMATCH, [&] { module.set_parameter("a", values.data(), -1, DType::f64); }, {"m.a"});
    expect_error(Status::TYPE_MISMATCH, [&] { module.set_parameter("a", values.data(), 5, DType::i64); },
                 {"m.a", "i64"});
    expect_error(Status::INVALID_ARGUMENT, [&] { module.set_parameter("a", nullptr, 5, DType::f64); }, {"null"});
    expect_error(Status::INVALID_ARGUMENT, [&] { module.set_parameter("x", values.data(), 5, DType::f64); },
                 {"'m'", "'x'"});
    module.set_parameter("a", values.data(), 5, DType::f64);
    context->finalize();
    module.pre_forward();
    expect_error(Status::INVALID_STATE, [&] { module.set_parameter("a", values.data(), 5, DType::f64); },
                 {"'m'", "forward"});
    module.post_forward();
    module.pre_backward();
    expect_error(Status::INVALID_STATE, [&] { module.set_parameter("a", values.data(), 5, DType::f64); },
                 {"'m'", "backward"});
    const FsdpModule::Gradient g = module.gradient("a", DType::f64);
    std::fill_n(static_cast<double*>(g.data), 5, 0.0);
    module.post_backward();
    context->finish_backward();
    module.unshard();
    expect_error(Status::INVALID_STATE, [&] { module.set_parameter("a", values.data(), 5, DType::f64); },
                 {"'m'", "unshard"});
    module.reshard();
    EXPECT_EQ(whole_parameter(module, "a"), values);
    expect_trains(*context, {&module});
  }
}

TEST(SetUpErrors, UseBeforeFinalize) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
  FsdpModule& module = add_simple(*context);
  const auto refuses = [&](auto&& action) { expect_error(Status::INVALID_STATE, action); };
  refuses([&] { module.pre_forward(); });
  refuses([&] { module.post_forward(); });
  refuses([&] { module.pre_backward(); });
  refuses([&] { module.post_backward(); });
  refuses([&] { module.unshard(); });
  refuses([&] { module.reshard(); });
  refuses([&] { module.parameter("a", DType::f64); });
  refuses([&] { module.gradient("a", DType::f64); });
  refuses([&] { module.main_gradient("a", DType::f64); });
  for (const auto& [name, action] : std::initializer_list<std::pair<std::string, std::function<void()>>>{
           {"finish_backward", [&] { context->finish_backward(); }},
           {"zero_grad", [&] { context->zero_grad(); }},
           {"fail_step", [&] { context->fail_step("x"); }},
           {"set_last_microbatch", [&] { context->set_last_microbatch(true); }},
           {"begin_inference", [&] { context->begin_inference(); }},
           {"named_states", [&] { context->named_states(); }}})
    expect_error(Status::INVALID_STATE, action, {name, "finalize"});
  refuses([&] { context->end_inference(); });
  context->finalize();
  expect_trains(*context, {&module});
}

TEST(SetUpErrors, RanksDeclareDifferentParameters) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const bool odd = rank == ranks - 1;
  const std::vector<ParameterSpec> usual{{"a", {5}, DType::f64, true}};
  for (const ParameterSpec& other : std::vector<ParameterSpec>{{"a", {6}, DType::f64, true},
                                                               {"a", {5, 1}, DType::f64, true},
                                                               {"b", {5}, DType::f64, true},
                                                               {"a", {5}, DType::f32, true},
                                                               {"a", {5}, DType::f64, false}}) {
    const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
    FsdpModule& module = context->add_module("m");
    module.add_parameter(odd ? other : usual[0]);
    expect_error(Status::RANKS_DISAGREE, [&] { module.build(); }, {"'m'"});
    EXPECT_FALSE(module.is_built());
    FsdpModule& next = add_simple(*context, "next");
    EXPECT_TRUE(next.is_built());
    expect_error(Status::INVALID_STATE, [&] { context->finalize(); }, {"'m'", "not built"});
  }
  const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
  FsdpModule& module = context->add_module(odd ? "x" : "y");
  module.add_parameter(usual[0]);
  expect_error(Status::RANKS_DISAGREE, [&] { module.build(); });
}

TEST(SetUpErrors, RanksAddModulesInDifferentOrders) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
  FsdpModule* modules[2];
  for (const int k : {0, 1}) { // added differently, but built in the same order
    const int m = rank == 0 ? k : 1 - k;
    modules[m] = &context->add_module(m == 0 ? "a" : "b");
    modules[m]->add_parameter({"a", {5}, DType::f64, true});
  }
  modules[0]->build();
  modules[1]->build();
  expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"order of the modules", "module 1 (here '"});
  EXPECT_FALSE(context->is_finalized());
}

TEST(SetUpErrors, ReplicasThatDifferAreNamedAndCured) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const std::vector<double> right{1, 2, 3, 4, 5}, wrong{1, 2, 3, 4, 5.5};
  for (const int odd : {0, ranks - 1}) {
    const auto context = FsdpContext::create(mesh, sums(Recipe::no_shard));
    FsdpModule& same = add_simple(*context, "same");
    FsdpModule& module = add_simple(*context, "other");
    module.set_parameter("a", rank == odd ? wrong.data() : right.data(), 5, DType::f64);
    expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"other.a", "broadcast"});
    EXPECT_FALSE(context->is_finalized());
    module.set_parameter("a", right.data(), 5, DType::f64);
    context->finalize();
    expect_trains(*context, {&same, &module});
  }
}

TEST(SetUpErrors, BroadcastCopiesReplicasFromRankZero) {
  const auto mesh = make_mesh();
  for (const DType storage : {DType::f64, DType::bf16}) {
    ContextConfig config = sums(Recipe::no_shard);
    config.broadcast = true;
    const auto context = FsdpContext::create(mesh, config);
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"a", {5}, storage, true});
    module.add_parameter({"b", {0}, storage, true});
    module.build();
    const std::vector<double> values{1.0 + rank, 2, 3, 4, 5};
    module.set_parameter("a", values.data(), 5, DType::f64);
    context->finalize();
    EXPECT_EQ(whole_parameter(module, "a"), (std::vector<double>{1, 2, 3, 4, 5}));
  }
}

struct Objects {
  FsdpContext& c;
  FsdpModule &m, &b;
};
struct SetUpMistake {
  Status status;
  std::vector<std::string> parts;
  std::function<void(Objects)> make;
};

constexpr Status type = Status::TYPE_MISMATCH;
const double zeros[5] = {};

void set(FsdpModule& module, std::optional<DType> Precision::*member, DType dtype) {
  Precision precision;
  precision.*member = dtype;
  module.set_precision(precision);
}

/// What is refused while module "m" (m) with the vector "a" is declared, and "built" (b) is built.
const std::vector<SetUpMistake> mistakes{
    {argument, {"name is empty"}, [](Objects s) { s.c.add_module(""); }},
    {argument, {"'m' exists already"}, [](Objects s) { s.c.add_module("m"); }},
    {argument, {"name is empty"}, [](Objects s) { s.m.add_module(""); }},
    {argument, {"module 'm'", "'a' exists already"}, [](Objects s) { s.m.tie_parameter("a", "a"); }},
    {argument, {"'m' has no parameter 'x'; it has 'a'"}, [](Objects s) { s.m.tie_parameter("t", "x"); }},
    {argument, {"owned by module 'built'", "one owner"}, [](Objects s) { s.m.tie_parameter("t", "built.a"); }},
    {argument, {"module 'm'", "is empty"}, [](Objects s) { s.m.tie_parameter("", "a"); }},
    {type,
     {"'m'", "main type of f64 or f32", "bf16"},
     [](Objects s) { set(s.m, &Precision::main_dtype, DType::bf16); }},
    {type, {"'m'", "compute type", "f16"}, [](Objects s) { set(s.m, &Precision::compute_dtype, DType::f16); }},
    {type, {"'m'", "reduction type", "i32"}, [](Objects s) { set(s.m, &Precision::reduction_dtype, DType::i32); }},
    {argument, {"'m'", "divisor > 0", "found 0"}, [](Objects s) { s.m.set_gradient_divisor(0); }},
    {argument, {"'m'", "elements >= 0", "found -3"}, [](Objects s) { s.m.set_prefetch(-3); }},
    {state, {"'m'", "no memory before build"}, [](Objects s) { s.m.set_from_root("a", zeros, 5, DType::f64, 0); }},
    {state, {"'m'", "no memory before build"}, [](Objects s) { s.m.initialise("a", [](auto...) {}); }},
    {state, {"module 'm' is not built", "call its build"}, [](Objects s) { s.c.finalize(); }},
    {state, {"'built'", "build was called twice"}, [](Objects s) { s.b.build(); }},
    {state, {"'built'", "tie_parameter('t') after build"}, [](Objects s) { s.b.tie_parameter("t", "a"); }},
    {state, {"'built'", "set_precision after build"}, [](Objects s) { s.b.set_precision({}); }},
    {state, {"pre_forward of module 'm'", "finalize the context first"}, [](Objects s) { s.m.skip_forward(); }},
    {state, {"reduce_gradients of module 'm'", "finalize"}, [](Objects s) { s.m.reduce_gradients(); }},
    {state, {"begin_backward", "finalize"}, [](Objects s) { s.c.begin_backward(); }},
    {state, {"skip_microbatch", "finalize"}, [](Objects s) { s.c.skip_microbatch(); }},
};

TEST(SetUpErrors, EveryMistakeThenTraining) {
  const auto mesh = make_mesh();
  for (const SetUpMistake& mistake : mistakes) {
    SCOPED_TRACE(mistake.parts.front());
    const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
    FsdpModule &built = add_simple(*context, "built"), &module = context->add_module("m");
    module.add_parameter({"a", {5}, DType::f64, true});
    const Objects objects{*context, module, built};
    expect_refused(
        mistake.status, [&] { mistake.make(objects); }, mistake.parts);
    module.build();
    context->finalize();
    expect_trains(*context, {&built, &module});
  }
}

TEST(SetUpErrors, SettingsThatDifferAreNamedAndCured) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh, sums(Recipe::zero_3));
  FsdpModule &first = add_simple(*context, "first"), &second = add_simple(*context, "second");
  const auto refuses = [&](const std::string& setting) {
    expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"settings: " + setting + " of 'second'"});
  };
  second.set_prefetch(rank);
  refuses("prefetch");
  second.set_prefetch(0);
  second.set_gradient_divisor(1 + rank);
  refuses("gradient divisor");
  second.set_gradient_divisor(1);
  context->finalize();
  expect_trains(*context, {&first, &second});
}

} // namespace
} // namespace ostraka::fsdp::test
