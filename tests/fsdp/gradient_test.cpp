// SPDX-License-Identifier: Apache-2.0
// Contributions to a gradient: beta, uses, micro-batches, ranks.
#include "network.hpp"

#include <numeric>

namespace ostraka::fsdp::test {
namespace {

using layout::ReduceOp;

/// One module "m" with vectors "a" (7) and "b" (3).
struct Pair {
  explicit Pair(const buffer::MeshPtr& mesh, ContextConfig config, DType storage = DType::f64)
      : context(FsdpContext::create(mesh, config)), module(&context->add_module("m")),
        compute(storage == DType::f64 ? DType::f64 : DType::f32) {
    module->add_parameter({"a", {7}, storage, true});
    module->add_parameter({"b", {3}, storage, true});
    module->build();
    context->finalize();
  }

  /// Contributes value (a) and 10 value (b); returns the beta of a.
  double contribute_all(double value) {
    contribute_to("b", 10 * value);
    return contribute_to("a", value);
  }
  double contribute_to(const char* name, double value) {
    const FsdpModule::Gradient gradient = module->gradient(name, compute);
    const std::int64_t count = layout::numel(module->spec(name).shape);
    if (compute == DType::f64)
      add(span_of(static_cast<double*>(gradient.data), count), gradient.beta, value);
    else
      add(span_of(static_cast<float*>(gradient.data), count), gradient.beta, static_cast<float>(value));
    return gradient.beta;
  }
  template <class T>
  void add(std::span<T> elements, double beta, T value) {
    on_stream(
        context->mesh()->device(),
        [=](auto out) {
          for (T& element : out)
            contribute(&element, beta, value);
        },
        elements);
  }
  void forward() {
    module->pre_forward();
    module->post_forward();
  }
  void backward(double value) {
    module->pre_backward();
    contribute_all(value);
    module->post_backward();
  }
  void micro_batch(double value, bool is_last = true) {
    context->set_last_microbatch(is_last);
    forward();
    backward(value);
    context->finish_backward();
  }
  /// This rank's elements of both gradients.
  void expect_gradient(double expected, double tolerance = 0) {
    const DType main = context->named_states().front().main_gradient.dtype();
    for (const char* name : {"a", "b"}) {
      const buffer::TensorRange own = module->main_gradient(name, main);
      for (const double found : elements_at(own.data, own.count, main))
        EXPECT_NEAR(found, *name == 'a' ? expected : 10 * expected, tolerance * std::abs(expected)) << name;
    }
  }

  std::shared_ptr<FsdpContext> context;
  FsdpModule* module;
  DType compute;
};

double rank_sum() { return ranks * (ranks + 1) / 2.0; } // of rank + 1

TEST(Gradient, BetaIsZeroThenOneInsideABackward) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Pair pair(mesh, make_config(recipe, ReduceOp::sum));
    pair.context->zero_grad();
    pair.forward();
    pair.module->pre_backward();
    EXPECT_EQ(pair.contribute_all(2), 0);
    EXPECT_EQ(pair.contribute_all(3), 1);
    EXPECT_EQ(pair.contribute_all(4), 1);
    pair.module->post_backward();
    pair.context->finish_backward();
    pair.expect_gradient(9.0 * ranks);
  }
}

TEST(Gradient, BetaIsZeroAgainInTheNextStep) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Pair pair(mesh, make_config(recipe, ReduceOp::sum));
    for (int step = 0; step < 3; ++step) {
      pair.context->zero_grad();
      pair.forward();
      pair.module->pre_backward();
      EXPECT_EQ(pair.contribute_all(step + 1), 0) << "step " << step;
      pair.module->post_backward();
      pair.context->finish_backward();
      pair.expect_gradient((step + 1.0) * ranks);
    }
  }
}

TEST(Gradient, UsesOfAModuleAddUp) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int slots : {1, 2}) {
      ContextConfig config = make_config(recipe, ReduceOp::sum);
      config.gradient_slots = slots;
      Pair pair(mesh, config);
      pair.context->zero_grad();
      for (int use = 0; use < 3; ++use)
        pair.forward();
      for (int use = 0; use < 3; ++use) {
        pair.module->pre_backward();
        EXPECT_EQ(pair.contribute_all(std::pow(10, use)), use == 0 ? 0 : 1);
        pair.module->post_backward();
      }
      pair.context->finish_backward();
      pair.expect_gradient(111.0 * ranks);
    }
}

TEST(Gradient, Case10MicroBatchesOfOneAddToTheirNumber) { // 2^K - 1 is the bug
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const DType storage : {DType::f64, DType::f32, DType::bf16})
      for (const int count : {1, 2, 4, 16}) {
        Pair pair(mesh, make_config(recipe), storage);
        for (int step = 0; step < 2; ++step) {
          pair.context->zero_grad();
          for (int k = 0; k < count; ++k)
            pair.micro_batch(1, k == count - 1);
          pair.expect_gradient(count, 1e-6); // the mean over 3 ranks may round
        }
      }
}

TEST(Gradient, Case13MeanAndSumOverTheRanks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const DType storage : {DType::f64, DType::f32, DType::bf16}) {
      Pair mean(mesh, make_config(recipe, ReduceOp::mean), storage);
      mean.micro_batch(rank + 1);
      mean.expect_gradient((ranks + 1) / 2.0, 1e-6); // 2.5 on 4 ranks
      Pair sum(mesh, make_config(recipe, ReduceOp::sum), storage);
      sum.micro_batch(rank + 1);
      sum.expect_gradient(rank_sum());
    }
}

TEST(Gradient, EqualValuesAverageExactlyInF64) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Pair pair(mesh, make_config(recipe));
    pair.micro_batch(3);
    pair.expect_gradient(3, 1e-15);
  }
}

TEST(Gradient, MicroBatchesAreNotMixedUp) { // spec 6.4: input r + 1, two backwards, mean: n + 1
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Pair pair(mesh, make_config(recipe));
    pair.micro_batch(rank + 1, false);
    pair.micro_batch(rank + 1, true);
    pair.expect_gradient(ranks + 1, 1e-15);
    pair.context->zero_grad();
    for (int k = 0; k < 3; ++k)
      pair.micro_batch(std::pow(10, k) * (rank + 1), k == 2); // case 9 on one axis
    pair.expect_gradient(111 * rank_sum() / ranks, 1e-15);
  }
}

TEST(Gradient, ZeroGradDropsMicroBatchesThatCameBefore) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const bool was_last : {false, true}) {
      Pair pair(mesh, make_config(recipe, ReduceOp::sum));
      pair.micro_batch(100, was_last);
      pair.context->zero_grad();
      pair.micro_batch(1);
      pair.expect_gradient(ranks);
    }
}

TEST(Gradient, ShardedGradientsGoOnAddingWithoutZeroGrad) { // the trap of spec 3.5: nothing is lost
  const auto mesh = make_mesh();
  Pair pair(mesh, make_config(Recipe::zero_3, ReduceOp::sum));
  for (int k = 1; k <= 3; ++k) {
    pair.micro_batch(1);
    pair.expect_gradient(k * ranks);
  }
}

TEST(Gradient, Case18AZeroContributionInOneMicroBatch) { // b has nothing to say in the first micro-batch
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Pair pair(mesh, make_config(recipe, ReduceOp::sum), DType::bf16);
    pair.context->zero_grad();
    pair.context->set_last_microbatch(false);
    pair.forward();
    pair.module->pre_backward();
    pair.contribute_to("a", 1.00390625); // 1 + 2^-8: not a bf16, the reduction is f32
    pair.contribute_to("b", 0);
    pair.module->post_backward();
    pair.context->finish_backward();
    pair.context->set_last_microbatch(true);
    pair.forward();
    pair.module->pre_backward();
    pair.contribute_to("a", 2);
    pair.contribute_to("b", 5.00390625);
    pair.module->post_backward();
    pair.context->finish_backward();
    EXPECT_EQ(pair.context->named_states().front().main_gradient.dtype(), DType::f32);
    for (const auto& [name, expected] : {std::pair{"a", 3.00390625}, std::pair{"b", 5.00390625}}) {
      const buffer::TensorRange own = pair.module->main_gradient(name, DType::f32);
      for (const double found : elements_at(own.data, own.count, DType::f32))
        EXPECT_EQ(found, expected * ranks) << name;
    }
  }
}

TEST(Gradient, Case17TheNextUnshardSeesTheUpdate) { // main 1.0 -> 0.5, bf16 model
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Pair pair(mesh, make_config(recipe), DType::bf16);
    const std::vector<double> ones(7, 1.0);
    pair.module->set_parameter("a", ones.data(), 7, DType::f64);
    pair.module->set_parameter("b", ones.data(), 3, DType::f64);
    EXPECT_EQ(whole_parameter(*pair.module, "a"), ones);
    const auto optimizer = optim::make_sgd(pair.context->named_states(), {.learning_rate = 0.5});
    pair.forward();
    pair.module->pre_backward();
    pair.contribute_to("a", 1);
    pair.contribute_to("b", 0.5);
    pair.module->post_backward();
    pair.context->finish_backward();
    optimizer->step();
    EXPECT_EQ(whole_parameter(*pair.module, "a"), std::vector<double>(7, 0.5)) << text(recipe);
    EXPECT_EQ(whole_parameter(*pair.module, "b"), std::vector<double>(3, 0.75)) << text(recipe);
    pair.module->pre_forward();
    EXPECT_EQ(elements_at(pair.module->parameter("a", DType::f32), 7, DType::f32), std::vector<double>(7, 0.5));
    pair.module->post_forward();
    pair.context->finish_backward();
  }
}

// Weights that were gathered ahead become stale when they change before they are used.
TEST(Gradient, WeightsGatheredAheadAreGatheredAgainAfterAChange) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const DType storage : {DType::f64, DType::bf16}) {
      const auto context = FsdpContext::create(mesh, make_config(recipe));
      FsdpModule* modules[2];
      for (int m = 0; m < 2; ++m) {
        modules[m] = &context->add_module("m" + std::to_string(m));
        modules[m]->add_parameter({"a", {11}, storage, true});
        modules[m]->build();
      }
      context->finalize();
      const DType compute = storage == DType::f64 ? DType::f64 : DType::f32;
      modules[0]->pre_forward(); // gathers module 1 ahead
      modules[0]->post_forward();
      std::vector<double> values(11);
      std::iota(values.begin(), values.end(), 1.0);
      modules[1]->set_parameter("a", values.data(), 11, DType::f64);
      modules[1]->pre_forward();
      EXPECT_EQ(elements_at(modules[1]->parameter("a", compute), 11, compute), values) << text(recipe) << name(storage);
      modules[1]->post_forward();
      context->finish_backward();
    }
}

} // namespace
} // namespace ostraka::fsdp::test
