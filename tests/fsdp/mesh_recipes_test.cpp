// SPDX-License-Identifier: Apache-2.0
// Every recipe on meshes of one, two and three axes against plain training (spec 3.3, 3.5), and what it keeps where.
#include "network.hpp"
#include "support/round_16.hpp"

namespace ostraka::fsdp::test {
namespace {

using layout::partial;
using layout::Placements;
using layout::ReduceOp;
using layout::replicate;
using layout::shard;

constexpr Recipe recipes[] = {Recipe::no_shard, Recipe::zero_1, Recipe::zero_2,       Recipe::zero_3,
                              Recipe::hsdp,     Recipe::hfsdp,  Recipe::zero_1_zero_2};

/// All ways to arrange the ranks on one or two axes, axes of one rank included, and on three where there are eight.
std::vector<std::vector<int>> mesh_shapes() {
  std::vector<std::vector<int>> shapes{{ranks}};
  for (int outer = 1; outer <= ranks; ++outer)
    if (ranks % outer == 0)
      shapes.push_back({outer, ranks / outer});
  if (ranks == 8)
    shapes.push_back({2, 2, 2});
  return shapes;
}

std::string text(const std::vector<int>& shape) {
  std::string text;
  for (const int size : shape)
    text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

buffer::MeshPtr make_mesh(const std::vector<int>& shape) {
  setenv("OSTRAKA_CHECK", "1", 0);
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, shape);
}

/// Calls body(mesh, recipe) for all that fit together.
template <class Body>
void for_all(Body&& body) {
  for (const std::vector<int>& shape : mesh_shapes()) {
    const auto mesh = make_mesh(shape);
    for (const Recipe recipe : recipes) {
      if (shape.size() == 1 && recipe > Recipe::zero_3)
        continue;
      SCOPED_TRACE("mesh " + text(shape) + ", recipe " + std::to_string(static_cast<int>(recipe)));
      body(mesh, recipe);
    }
  }
}

TEST(MeshRecipes, ParityWithPlainTraining) {
  int combination = 0;
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    for (const int micro_batches : {1, 3})
      for (const bool is_adamw : {false, true}) {
        Options options;
        options.net = mlp({5, 7, 3});
        options.config = make_config(recipe, combination++ / 2 % 2 == 0 ? ReduceOp::mean : ReduceOp::sum);
        options.optimizer.is_adamw = is_adamw;
        options.micro_batches = micro_batches;
        Training<double> training(mesh, options);
        for (int step = 1; step <= 3; ++step) {
          training.step();
          training.expect_equal(1e-12, "step " + std::to_string(step));
        }
      }
  });
}

// One linear layer whose data, gradients and steps are short binary fractions: everything is exact, but that weights
// are handed out rounded to bf16.
TEST(MeshRecipes, Bf16WeightsAreTheRoundedMainWeights) {
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    Options options;
    options.net = mlp({4, 4});
    options.config = make_config(recipe, ReduceOp::sum);
    options.storage = DType::bf16;
    options.rows = 16;
    options.optimizer.rate = 0.25;
    options.optimizer.momentum = 0.5;
    options.optimizer.weight_decay = 0;
    Training<float> training(mesh, options);
    const auto rounded = [](Values values) {
      for (auto& parameter : values)
        for (double& value : parameter)
          value = bf16_value(round_to_bf16(value));
      return values;
    };
    const Values seen = rounded(training.plain_weights());
    training.backward_all();
    training.optimizer().step();
    training.plain_step(seen);
    EXPECT_EQ(whole_main_weights(training.context()), training.plain_weights());
    const Values expected = rounded(training.plain_weights());
    EXPECT_EQ(whole_parameter(training.module(0), "weight"), expected[0]);
    EXPECT_EQ(whole_parameter(training.module(0), "bias"), expected[1]);
  });
}

TEST(MeshRecipes, F32WithMainWeightsOfF64) {
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    if (recipe == Recipe::no_shard || recipe == Recipe::zero_1)
      return; // hand out the main gradient itself
    Options options;
    options.net = mlp({5, 7, 3});
    options.config = make_config(recipe);
    options.storage = DType::f32;
    options.config.main_dtype = DType::f64;
    options.micro_batches = 2;
    Training<float> training(mesh, options);
    for (int step = 1; step <= 3; ++step)
      training.step();
    training.expect_equal(2e-5);
  });
}

// Gradients taken and reduced in bf16: short binary fractions, so nothing rounds.
TEST(MeshRecipes, GradientsInBf16OfOneModule) {
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    if (recipe == Recipe::no_shard || recipe == Recipe::zero_1)
      return; // hand out the main gradient itself
    const auto context = FsdpContext::create(mesh, make_config(recipe, ReduceOp::sum));
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"w", {4, 3}, DType::f32, true});
    module.set_precision({DType::f64, std::nullopt, DType::bf16});
    module.build();
    context->finalize();
    for (int k = 0; k < 2; ++k) {
      context->set_last_microbatch(k == 1);
      module.pre_forward();
      EXPECT_NO_THROW(module.parameter("w", DType::f32));
      module.post_forward();
      module.pre_backward();
      expect_error(Status::TYPE_MISMATCH, [&] { module.gradient("w", DType::f32); }, {"bf16", "f32"});
      const FsdpModule::Gradient gradient = module.gradient("w", DType::bf16);
      const std::vector<std::byte> values = encode(std::vector<double>(12, 0.25 * (rank + 1)), DType::bf16);
      write_at(gradient.data, values.data(), 24);
      module.post_backward();
      context->finish_backward();
    }
    const buffer::TensorRange own = module.main_gradient("w", DType::f64);
    for (const double found : elements_at(own.data, own.count, DType::f64))
      EXPECT_EQ(found, 2 * 0.25 * ranks * (ranks + 1) / 2);
  });
}

// Case 9: gradient on rank r in micro-batch k is 10^k (r + 1); mean over the ranks, micro-batches add up.
TEST(MeshRecipes, MicroBatchesAddUpBeforeTheOuterReduction) {
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    const auto context = FsdpContext::create(mesh, make_config(recipe));
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"w", {5, 3}, DType::f64, true});
    module.build();
    context->finalize();
    for (int step = 0; step < 2; ++step) {
      double expected = 0;
      for (int k = 0; k < 2; ++k) {
        context->set_last_microbatch(k == 1);
        module.pre_forward();
        module.post_forward();
        module.pre_backward();
        const FsdpModule::Gradient gradient = module.gradient("w", DType::f64);
        const double contribution = std::pow(10, k) * (rank + 1);
        on_stream(
            mesh->device(),
            [=](auto elements) {
              for (double& element : elements)
                contribute(&element, gradient.beta, contribution);
            },
            span_of(static_cast<double*>(gradient.data), 15));
        module.post_backward();
        context->finish_backward();
        expected += std::pow(10, k) * (ranks + 1) / 2.0;
      }
      const buffer::TensorRange own = module.main_gradient("w", DType::f64);
      for (const double found : elements_at(own.data, own.count, DType::f64))
        EXPECT_DOUBLE_EQ(found, expected);
      context->zero_grad();
    }
  });
}

// The trap of spec 3.5: what a second backward pass would silently lose is refused where it would.
TEST(MeshRecipes, AContributionAfterTheLastReductionIsRefusedOrKept) {
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    Options options;
    options.net = mlp({3, 2});
    options.config = make_config(recipe);
    Training<double> training(mesh, options);
    training.context().zero_grad();
    training.pass(0);
    training.context().finish_backward();
    FsdpModule& module = training.module(0);
    module.pre_forward();
    module.post_forward();
    if (recipe == Recipe::zero_2 || recipe == Recipe::zero_3)
      EXPECT_NO_THROW({
        module.pre_backward();
        module.gradient("weight", DType::f64);
        module.gradient("bias", DType::f64);
        module.post_backward();
        training.context().finish_backward();
      });
    else
      expect_error(Status::INVALID_STATE, [&] { module.pre_backward(); }, {"zero_grad", "set_last_microbatch"});
    training.context().fail_step("the pass ends here");
    expect_error(Status::USER_FAILURE, [&] { training.context().finish_backward(); }, {"the pass ends here"});
    training.expect_usable("a refused contribution");
  });
}

TEST(MeshRecipes, PlacementsOfOptimizersAndNodes) {
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    Options options;
    options.config = make_config(recipe);
    Training<double> training(mesh, options);
    const buffer::NamedState state = training.context().named_states()[0];
    EXPECT_EQ(state.main_weight.placements(), state.main_gradient.placements());
    const RecipePlacements expected = placements_of(recipe, mesh->dims(), ReduceOp::mean);
    const Placements everywhere(mesh->dims(), shard());
    if (cuts_updates() && mesh->nodes_hold_all_parts(expected.parameter))
      EXPECT_EQ(state.main_weight.placements(), everywhere);
    else
      EXPECT_EQ(state.main_weight.placements(), expected.optimizer);
  });
}

TEST(MeshRecipes, PlacementsByHand) {
  for (const std::vector<int>& shape : mesh_shapes()) {
    if (shape.size() != 2)
      continue;
    const auto mesh = make_mesh(shape);
    const RecipePlacements triples[] = {
        {{replicate(), shard()}, {shard(), shard()}, {shard(), shard()}},
        {{shard(), shard()}, {partial(), shard()}, {shard(), shard()}},
        {{replicate(), replicate()}, {replicate(), shard()}, {shard(), shard()}},
        {{replicate(), replicate()}, {replicate(), replicate()}, {replicate(), shard()}},
        {{shard(), shard()}, {partial(), partial()}, {shard(), shard()}},
    };
    for (const RecipePlacements& placements : triples) {
      SCOPED_TRACE("mesh " + text(shape) + " " + layout::to_string(placements.parameter) +
                   layout::to_string(placements.gradient) + layout::to_string(placements.optimizer));
      Options options;
      options.net = mlp({5, 7, 3});
      options.config = make_config(Recipe::zero_3, ReduceOp::sum);
      options.config.placements = placements;
      options.micro_batches = 3;
      Training<double> training(mesh, options);
      for (int step = 1; step <= 2; ++step) {
        training.step();
        training.expect_equal(1e-12, "step " + std::to_string(step));
      }
    }
  }
}

TEST(MeshRecipes, ReplicasThatDifferAreNamed) {
  if (ranks == 1)
    return;
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    const auto context = FsdpContext::create(mesh, make_config(recipe));
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"w", {6}, DType::f64, true});
    module.build();
    const std::vector<double> values(6, rank == ranks - 1 ? 2.0 : 1.0);
    module.set_parameter("w", values.data(), 6, DType::f64);
    if (recipe == Recipe::zero_3) // every element has one owner
      EXPECT_NO_THROW(context->finalize());
    else
      expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"m.w"});
  });
}

TEST(MeshRecipes, BroadcastTakesTheValuesOfRankZero) {
  for_all([&](const buffer::MeshPtr& mesh, Recipe recipe) {
    ContextConfig config = make_config(recipe);
    config.broadcast = true;
    const auto context = FsdpContext::create(mesh, config);
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"w", {7, 3}, DType::f64, true});
    module.add_parameter({"b", {5}, DType::f64, true});
    module.build();
    std::vector<double> w(21), b(5);
    for (int i = 0; i < 21; ++i)
      w[i] = 100 * rank + i;
    for (int i = 0; i < 5; ++i)
      b[i] = 1000 * rank + i;
    module.set_parameter("w", w.data(), 21, DType::f64);
    module.set_parameter("b", b.data(), 5, DType::f64);
    context->finalize();
    if (recipe == Recipe::zero_3)
      return;
    const std::vector<double> found_w = whole_parameter(module, "w"), found_b = whole_parameter(module, "b");
    for (int i = 0; i < 21; ++i)
      EXPECT_EQ(found_w[i], i);
    for (int i = 0; i < 5; ++i)
      EXPECT_EQ(found_b[i], i);
  });
}

} // namespace
} // namespace ostraka::fsdp::test
