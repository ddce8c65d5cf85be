// SPDX-License-Identifier: Apache-2.0
// Modules of many kinds of parameters, or of none.
#include "vectors.hpp"

#include <numeric>

namespace ostraka::fsdp::test {
namespace {

using layout::ReduceOp;

struct Declared {
  const char* name;
  layout::Shape shape;
  DType storage;
  bool trainable;
  DType compute() const { return storage == DType::f64 ? DType::f64 : DType::f32; }
  std::int64_t count() const { return layout::numel(shape); }
};

const std::vector<Declared> mixed{
    {"wide", {3, 5}, DType::f64, true},    {"narrow", {4}, DType::f32, true},  {"half", {2, 2, 3}, DType::bf16, true},
    {"table", {9}, DType::f64, false},     {"scalar", {}, DType::f64, true},   {"nothing", {0, 7}, DType::f64, true},
    {"steady", {5}, DType::bf16, false},   {"none", {3, 0}, DType::f32, true}, {"single", {1, 1}, DType::bf16, true},
    {"constants", {2}, DType::f32, false},
};

double start(int p, std::int64_t i) { return (p + 1) + static_cast<double>(i % 8) / 8; } // exact in bf16

struct Mixed {
  Mixed(const buffer::MeshPtr& mesh, const ContextConfig& config) : context(FsdpContext::create(mesh, config)) {
    module = &context->add_module("mixed");
    for (const Declared& p : mixed)
      module->add_parameter({p.name, p.shape, p.storage, p.trainable});
    module->build();
    for (std::size_t p = 0; p < mixed.size(); ++p)
      module->set_parameter(mixed[p].name, values(p).data(), mixed[p].count(), DType::f64);
    context->finalize();
  }
  std::vector<double> values(std::size_t p, double change = 0) const {
    std::vector<double> result(mixed[p].count());
    for (std::int64_t i = 0; i < mixed[p].count(); ++i)
      result[i] = start(static_cast<int>(p), i) + (mixed[p].trainable ? change : 0);
    return result;
  }
  void expect_values(double change) {
    for (std::size_t p = 0; p < mixed.size(); ++p)
      EXPECT_EQ(elements_at(module->parameter(mixed[p].name, mixed[p].compute()), mixed[p].count(), mixed[p].compute()),
                values(p, change))
          << mixed[p].name;
  }
  void pass(double gradient) {
    module->pre_forward();
    module->post_forward();
    module->pre_backward();
    contribute_all(gradient);
    module->post_backward();
    context->finish_backward();
  }
  /// `gradient` for every element of the trainable ones.
  void contribute_all(double gradient) {
    for (const Declared& p : mixed)
      if (p.trainable) {
        const FsdpModule::Gradient g = module->gradient(p.name, p.compute());
        std::vector<double> sums(p.count());
        if (g.beta != 0)
          sums = elements_at(g.data, p.count(), p.compute());
        for (double& sum : sums)
          sum += gradient;
        const auto bytes = encode(sums, p.compute());
        write_at(g.data, bytes.data(), std::ssize(bytes));
      }
  }

  std::shared_ptr<FsdpContext> context;
  FsdpModule* module;
};

TEST(Groups, OneForEachTypeAndTrainability) {
  const auto mesh = make_mesh();
  const Mixed net(mesh, make_config(Recipe::zero_3));
  ASSERT_EQ(net.module->groups().size(), 6u);
  const auto names = [&](int g) {
    std::vector<std::string> result;
    for (const ParameterSpec& spec : net.module->groups()[g]->specs())
      result.push_back(spec.name);
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(0), (Names{"wide", "scalar", "nothing"}));
  EXPECT_EQ(names(1), (Names{"narrow", "none"}));
  EXPECT_EQ(names(2), (Names{"half", "single"}));
  EXPECT_EQ(names(3), (Names{"table"}));
  EXPECT_EQ(names(4), (Names{"steady"}));
  EXPECT_EQ(names(5), (Names{"constants"}));
  const auto states = net.context->named_states(); // no frozen ones
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[0].tensor_names, (Names{"mixed.wide", "mixed.scalar", "mixed.nothing"}));
  EXPECT_EQ(states[2].tensor_names, (Names{"mixed.half", "mixed.single"}));
}

TEST(Groups, TrainTogetherAndFrozenOnesStay) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int slots : {1, 2}) {
      ContextConfig config = make_config(recipe, ReduceOp::sum);
      config.gradient_slots = slots;
      Mixed net(mesh, config);
      const auto optimizer = optim::make_sgd(net.context->named_states(), {.learning_rate = 0.125 / ranks});
      net.module->unshard();
      net.expect_values(0);
      net.module->reshard();
      net.context->zero_grad();
      net.pass(1);
      net.context->zero_grad();
      net.context->set_last_microbatch(false);
      net.pass(1);
      net.context->set_last_microbatch(true);
      net.pass(2);
      optimizer->step();
      net.module->unshard();
      if (ranks != 3) // a third is not exact
        net.expect_values(-0.375);
      net.module->reshard();
      EXPECT_EQ(net.context->memory().transient, 0);
    }
}

void expect_zero_padding(const buffer::DBuffer& buffer, const std::string& what) {
  const layout::Range& range = buffer.range();
  const auto values = elements_at(buffer.data(), range.size(), buffer.dtype());
  for (const layout::Range& gap : buffer.layout()->gaps(range))
    for (std::int64_t i = gap.begin; i < gap.end; ++i)
      EXPECT_EQ(values[i - range.begin], 0) << what << ", element " << i;
}

TEST(Groups, PaddingStaysZero) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const layout::ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
      Mixed net(mesh, make_config(recipe, op));
      const auto states = net.context->named_states();
      const auto optimizer = optim::make_adamw(states, {.learning_rate = 0.1, .epsilon = 0});
      for (int step = 0; step < 2; ++step) {
        net.context->zero_grad();
        for (int k = 0; k < 2; ++k) {
          net.context->set_last_microbatch(k == 1);
          net.pass(1);
        }
        for (const buffer::NamedState& state : states)
          expect_zero_padding(state.main_gradient, "main gradient");
        optimizer->step();
        for (const buffer::NamedState& state : states)
          expect_zero_padding(state.main_weight, "main weight");
      }
    }
}

TEST(Groups, FrozenGradientsAreRefused) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Mixed net(mesh, make_config(recipe));
    net.module->pre_forward();
    net.module->post_forward();
    net.module->pre_backward();
    expect_error(Status::INVALID_STATE, [&] { net.module->gradient("table", DType::f64); }, {"mixed.table", "frozen"});
    expect_error(Status::INVALID_STATE, [&] { net.module->main_gradient("table", DType::f64); },
                 {"mixed.table", "frozen"});
    net.contribute_all(1);
    net.module->post_backward();
    net.context->finish_backward();
    optim::make_sgd(net.context->named_states(), {})->step();
  }
}

TEST(Groups, AModuleOfFrozenParametersOnly) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool goes_backward : {false, true}) {
      const auto context = FsdpContext::create(mesh, make_config(recipe));
      FsdpModule& module = context->add_module("frozen");
      module.add_parameter({"table", {6}, DType::f64, false});
      module.build();
      std::vector<double> values(6);
      std::iota(values.begin(), values.end(), 0.0);
      module.set_parameter("table", values.data(), 6, DType::f64);
      context->finalize();
      EXPECT_TRUE(context->named_states().empty());
      for (int step = 0; step < 3; ++step) {
        context->zero_grad();
        module.pre_forward();
        EXPECT_EQ(elements_at(module.parameter("table", DType::f64), 6, DType::f64), values);
        module.post_forward();
        if (goes_backward) { // the gradient passes through
          module.pre_backward();
          EXPECT_EQ(elements_at(module.parameter("table", DType::f64), 6, DType::f64), values);
          module.post_backward();
        }
        context->finish_backward();
      }
      EXPECT_EQ(context->memory().gradients, 0);
    }
}

TEST(Groups, ParameterlessModulesAndContexts) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    const auto empty = FsdpContext::create(mesh, make_config(recipe));
    empty->finalize();
    empty->zero_grad();
    empty->finish_backward();
    empty->begin_inference();
    empty->end_inference();
    EXPECT_EQ(empty->memory().num_elements, 0);

    const auto context = FsdpContext::create(mesh, make_config(recipe, ReduceOp::sum));
    FsdpModule& root = context->add_module("root"); // phases and order only
    root.build();
    FsdpModule& child = context->add_module("child");
    child.add_parameter({"a", {5}, DType::f64, true});
    child.build();
    context->finalize();
    const auto optimizer = optim::make_sgd(context->named_states(), {.learning_rate = 1});
    for (int step = 1; step <= 3; ++step) {
      context->zero_grad();
      root.pre_forward();
      child.pre_forward();
      child.post_forward();
      root.post_forward();
      root.pre_backward(); // a parent's backward encloses its children's
      child.pre_backward();
      write(child, "a", 1);
      child.post_backward();
      root.post_backward();
      context->finish_backward();
      optimizer->step();
      EXPECT_EQ(whole_parameter(child, "a"), std::vector<double>(5, -step * ranks));
    }
  }
}

// A parent that holds parameters of its own is open while its children run.
TEST(Groups, NestedModules) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int slots : {1, 2}) {
      ContextConfig config = make_config(recipe, ReduceOp::sum);
      config.gradient_slots = slots;
      const auto context = FsdpContext::create(mesh, config);
      std::vector<FsdpModule*> modules;
      for (const char* name : {"outer", "left", "right"}) {
        modules.push_back(&context->add_module(name));
        modules.back()->add_parameter({"a", {6}, DType::f64, true});
        modules.back()->build();
      }
      context->finalize();
      for (int step = 0; step < 2; ++step) {
        context->zero_grad();
        modules[0]->pre_forward();
        for (const int child : {1, 2}) {
          modules[child]->pre_forward();
          modules[child]->post_forward();
        }
        modules[0]->post_forward();
        modules[0]->pre_backward();
        write(*modules[0], "a", 1);
        for (const int child : {2, 1}) {
          modules[child]->pre_backward();
          write(*modules[child], "a", child * 10);
          modules[child]->post_backward();
        }
        write(*modules[0], "a", 2);
        modules[0]->post_backward();
        context->finish_backward();
        for (const auto& [m, expected] : {std::pair{0, 3.0}, std::pair{1, 10.0}, std::pair{2, 20.0}})
          expect_gradient(*modules[m], "a", expected * ranks);
      }
    }
}

} // namespace
} // namespace ostraka::fsdp::test
