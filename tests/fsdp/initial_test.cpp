// SPDX-License-Identifier: Apache-2.0
// Initial weights from one rank or from their owners, divided gradients, and gradients that were used.
#include "vectors.hpp"

#include <stdexcept>

namespace ostraka::fsdp::test {
namespace {

using layout::ReduceOp;

/// "first" (2, 3), "w" (53) and "empty" (0).
FsdpModule& add_module(FsdpContext& context, DType storage) {
  FsdpModule& module = context.add_module("m");
  module.add_parameter({"first", {2, 3}, storage, true});
  module.add_parameter({"w", {53}, storage, true});
  module.add_parameter({"empty", {0}, storage, true});
  module.build();
  return module;
}

std::vector<double> numbers(std::int64_t count, double offset) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i)
    values[i] = offset + static_cast<double>(i);
  return values;
}

TEST(InitialWeights, FromOneRank) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const DType storage : {DType::f64, DType::f32, DType::bf16})
      for (const int root : {0, ranks - 1}) {
        const auto context = FsdpContext::create(mesh, make_config(recipe));
        FsdpModule& module = add_module(*context, storage);
        const std::vector<double> values = numbers(53, 3);
        module.set_from_root("w", rank == root ? values.data() : nullptr, 53, DType::f64, root);
        module.set_from_root("empty", nullptr, 0, DType::f64, root);
        context->finalize(); // replicas are equal
        EXPECT_EQ(whole_parameter(module, "w"), values);
        EXPECT_EQ(whole_parameter(module, "first"), constant(6, 0));
        const std::vector<double> later = numbers(53, 7);
        module.set_from_root("w", rank == root ? later.data() : nullptr, 53, DType::f64, root);
        EXPECT_EQ(whole_parameter(module, "w"), later);
      }
}

TEST(InitialWeights, FromOneRankWithMistakes) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& module = add_module(*context, DType::f64);
  const std::vector<double> values = numbers(53, 3);
  const auto set = [&](const char* name, const double* data, std::int64_t count, DType dtype, int root) {
    module.set_from_root(name, data, count, dtype, root);
  };
  const int last = ranks - 1;
  expect_error(Status::INVALID_ARGUMENT,
               [&] { set("w", rank == last ? nullptr : values.data(), 53, DType::f64, last); },
               {"'m.w'", "null", "rank " + std::to_string(last)});
  expect_error(Status::INVALID_ARGUMENT, [&] { set("w", values.data(), 53, DType::f64, ranks); }, {"root"});
  expect_error(Status::INVALID_ARGUMENT, [&] { set("x", values.data(), 53, DType::f64, 0); }, {"'x'"});
  expect_error(Status::SHAPE_MISMATCH, [&] { set("w", values.data(), rank == last ? 52 : 53, DType::f64, 0); },
               {"'m.w'", "52", "53"});
  expect_error(Status::TYPE_MISMATCH, [&] { set("w", values.data(), 53, DType::i64, 0); }, {"i64"});
  if (ranks > 1) {
    expect_error(Status::RANKS_DISAGREE, [&] { set("w", values.data(), 53, DType::f64, rank == last ? 1 : 0); },
                 {"'m.w'"});
  }
  set("w", values.data(), 53, DType::f64, 0);
  context->finalize();
  EXPECT_EQ(whole_parameter(module, "w"), values);
}

// A tensor that one rank has all of: there is nothing to compare, since no other rank has any of it.
TEST(InitialWeights, OfATensorThatIsNotCut) {
  for_all_recipes([](const buffer::MeshPtr& mesh, Recipe recipe) {
    const auto context = FsdpContext::create(mesh, make_config(recipe));
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"bias", {4}, DType::f64, true});
    module.add_parameter({"weight", {1000}, DType::f64, true});
    module.build();
    for (const char* name : {"bias", "weight"})
      module.initialise(name, [](std::int64_t first, std::int64_t count, void* out, DType) {
        for (std::int64_t i = 0; i < count; ++i)
          static_cast<double*>(out)[i] = static_cast<double>(first + i);
      });
    context->finalize();
    EXPECT_EQ(whole_parameter(module, "bias"), numbers(4, 0));
    EXPECT_EQ(whole_parameter(module, "weight"), numbers(1000, 0));
  });
}

// Owners of the same part that fill in other values, where the recipe keeps replicas of main weights.
TEST(InitialWeights, OwnersThatDisagree) {
  const auto line = make_mesh(), plane = make_plane();
  for (const Recipe recipe : {Recipe::no_shard, Recipe::hsdp}) {
    const auto& mesh = recipe == Recipe::hsdp ? plane : line;
    const auto context = FsdpContext::create(mesh, make_config(recipe));
    FsdpModule& module = context->add_module("m");
    module.add_parameter({"w", {100}, DType::f64, true});
    module.build();
    module.initialise("w", [](std::int64_t, std::int64_t count, void* out, DType) {
      std::fill_n(static_cast<double*>(out), count, rank == ranks - 1 ? 2.0 : 1.0);
    });
    const layout::Placements& kept = module.groups().front()->weights().main().placements();
    bool has_replicas = false;
    for (int axis = 0; axis < mesh->dims(); ++axis)
      has_replicas = has_replicas || (kept[axis].is_replicate() && mesh->axis_size(axis) > 1);
    if (has_replicas)
      expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"m.w"});
    else
      EXPECT_NO_THROW(context->finalize()) << text(recipe);
  }
}

TEST(InitialWeights, FromTheirOwners) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : {Recipe::zero_3, Recipe::no_shard, Recipe::zero_1, Recipe::zero_2})
    for (const bool broadcast : {false, true})
      for (const DType storage : {DType::f64, DType::bf16}) {
        ContextConfig config = make_config(recipe);
        config.broadcast = broadcast;
        const auto context = FsdpContext::create(mesh, config);
        FsdpModule& module = add_module(*context, storage);
        std::int64_t asked = 0;
        module.initialise("w", [&](std::int64_t first, std::int64_t count, void* out, DType dtype) {
          EXPECT_EQ(dtype, storage == DType::f64 ? DType::f64 : DType::f32);
          for (std::int64_t i = 0; i < count; ++i)
            if (dtype == DType::f64)
              static_cast<double*>(out)[i] = static_cast<double>(first + i);
            else
              static_cast<float*>(out)[i] = static_cast<float>(first + i);
          asked += count;
        });
        module.initialise("empty", [](auto...) { ADD_FAILURE() << "nothing is owned"; });
        const bool is_cut = recipe != Recipe::no_shard || cuts_updates();
        const bool decides_for_all = broadcast && recipe != Recipe::zero_3; // rank 0 may be asked for more
        if (!decides_for_all) {
          MPI_Allreduce(MPI_IN_PLACE, &asked, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD);
          EXPECT_EQ(asked, is_cut ? 53 : 53 * ranks);
        }
        context->finalize();
        EXPECT_EQ(whole_parameter(module, "w"), numbers(53, 0)) << text(recipe);
      }
}

TEST(InitialWeights, AFillThatThrows) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    const auto context = FsdpContext::create(mesh, make_config(recipe));
    FsdpModule& module = add_module(*context, DType::f64);
    context->finalize();
    bool has_thrown = false;
    try {
      module.initialise("w", [](auto...) { throw std::runtime_error("no numbers"); });
    } catch (const std::runtime_error& error) {
      has_thrown = std::string(error.what()) == "no numbers";
    }
    EXPECT_TRUE(has_thrown);
    module.set_parameter("w", numbers(53, 1).data(), 53, DType::f64);
    EXPECT_EQ(whole_parameter(module, "w"), numbers(53, 1));
    module.unshard();
    expect_error(Status::INVALID_STATE, [&] { module.initialise("w", [](auto...) {}); }, {"initialise", "'m'"});
    module.reshard();
  }
}

TEST(InitialWeights, ReplicasThatSomeRanksInitialise) {
  const auto mesh = make_mesh();
  if (ranks == 1)
    return;
  const auto context = FsdpContext::create(mesh, make_config(Recipe::no_shard));
  FsdpModule& module = add_module(*context, DType::f64);
  const std::vector<double> ones = constant(53, 1);
  if (rank == 0)
    module.set_parameter("w", ones.data(), 53, DType::f64);
  else
    module.initialise("w", [](std::int64_t, std::int64_t count, void* out, DType) {
      std::fill_n(static_cast<double*>(out), count, 2.0);
    });
  expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"m.w"});
}

// --- gradients

TEST(GradientDivisor, DividesEachContribution) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : {Recipe::zero_3, Recipe::no_shard, Recipe::zero_1, Recipe::zero_2})
    for (const std::optional<DType> main : {std::optional<DType>(), {DType::f32}}) {
      if (main && (recipe == Recipe::no_shard || recipe == Recipe::zero_1))
        continue;
      ContextConfig config = make_config(recipe, ReduceOp::sum);
      config.main_dtype = main;
      const auto context = FsdpContext::create(mesh, config);
      FsdpModule& divided = context->add_module("divided");
      divided.set_gradient_divisor(4);
      with_vectors(divided, {{"w", 9}});
      FsdpModule& usual = with_vectors(context->add_module("usual"), {{"w", 9}});
      context->finalize();
      for (int step = 0; step < 2; ++step) {
        context->zero_grad();
        for (int k = 0; k < 3; ++k) {
          context->set_last_microbatch(k == 2);
          forward(divided);
          forward(usual);
          backward(usual, 8);
          backward(divided, 8);
          context->finish_backward();
        }
        const DType dtype = main.value_or(DType::f64);
        for (const auto& [module, expected] : {std::pair{&divided, 6.0 * ranks}, {&usual, 24.0 * ranks}}) {
          const buffer::TensorRange own = module->main_gradient("w", dtype);
          for (std::int64_t i = 0; i < own.count; ++i)
            EXPECT_EQ(element(own.data, i, dtype), expected) << module->name();
        }
      }
    }
}

TEST(GradientDivisor, Errors) {
  const auto mesh = make_mesh();
  const auto context = FsdpContext::create(mesh);
  FsdpModule& module = with_vectors(context->add_module("m"), {{"w", 9}});
  for (const double wrong : {0.0, -1.0, std::nan(""), HUGE_VAL})
    expect_error(Status::INVALID_ARGUMENT, [&] { module.set_gradient_divisor(wrong); }, {"'m'", "> 0"});
  if (ranks > 1) {
    module.set_gradient_divisor(1 + rank);
    expect_error(Status::RANKS_DISAGREE, [&] { context->finalize(); }, {"divisor"});
  }
  module.set_gradient_divisor(2);
  context->finalize();
  expect_error(Status::INVALID_STATE, [&] { module.set_gradient_divisor(1); }, {"'m'", "finalised"});
}

// A gradient moves the weights once; it stays readable, and without zero_grad the next one is added to it.
TEST(UsedGradient, TwoStepsNeedTwoGradients) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Layers t(mesh, make_config(recipe, ReduceOp::sum), 2);
    const auto sgd = optim::make_sgd(t.context->named_states(), {.learning_rate = 0.5});
    const auto micro_batch = [&] {
      t.forward_all();
      backward(*t.layers[1], 1);
      backward(*t.layers[0], 1);
      t.context->finish_backward();
    };
    micro_batch();
    sgd->step();
    expect_error(Status::INVALID_STATE, [&] { sgd->step(); }, {"no parameter has a new gradient"});
    t.expect_gradients(ranks);
    if (recipe == Recipe::no_shard)
      t.context->zero_grad();
    micro_batch();
    t.expect_gradients(recipe == Recipe::no_shard ? ranks : 2 * ranks);
    sgd->step();
    const double moved = 0.5 * ranks * (recipe == Recipe::no_shard ? 2 : 3);
    EXPECT_EQ(whole_parameter(*t.layers[0], "w"), constant(Layers::size, 1 - moved));
  }
}

} // namespace
} // namespace ostraka::fsdp::test
