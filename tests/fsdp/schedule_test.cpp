// SPDX-License-Identifier: Apache-2.0
// What the schedule costs: memory at rest, in a step and afterwards (spec 3.9).
#include "network.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/runtime/progress.hpp>

namespace ostraka::fsdp::test {
namespace {

std::vector<int> equal_widths(int layers) { return std::vector<int>(layers + 1, 24); }

Options make_options(Recipe recipe, int layers) {
  Options options;
  options.net = mlp(equal_widths(layers));
  options.config = make_config(recipe);
  options.optimizer.is_adamw = true;
  return options;
}

std::shared_ptr<memory::Arena> arena_of(const FsdpContext& context) {
  return context.named_states().front().main_weight.storage()->arena();
}

std::int64_t in_use(const memory::Arena& arena) {
  std::int64_t bytes = 0;
  for (int kind = 0; kind < memory::num_kinds; ++kind)
    bytes += arena.usage(static_cast<memory::Kind>(kind)).in_use;
  return bytes;
}

std::int64_t transient_peak(const buffer::MeshPtr& mesh, const Options& options) {
  Training<double> training(mesh, options);
  for (int step = 0; step < 2; ++step)
    training.step();
  training.expect_equal(1e-12);
  return training.context().memory().transient_peak;
}

constexpr std::int64_t least_layer = (24 * 24 + 24) * 8;

/// What a rank counts at most of `bytes` that its node gathers: whole pages, cut among those that share them.
std::int64_t part_of_a_gather(std::int64_t bytes) {
  return sharing_ranks() == 1 ? bytes : (bytes + 4096) / sharing_ranks() + 1;
}

TEST(Memory, Case34TransientPeakDoesNotGrowWithDepth) {
  const auto mesh = make_mesh();
  for (const int slots : {1, 2, 3}) {
    Options four = make_options(Recipe::zero_3, 4), twelve = make_options(Recipe::zero_3, 12);
    four.config.gradient_slots = twelve.config.gradient_slots = slots;
    const std::int64_t peak = transient_peak(mesh, four);
    EXPECT_EQ(peak, transient_peak(mesh, twelve)) << slots << " slots";
    // Two gathered layers and the slots (spec: two and two, bound 5 layers).
    const std::int64_t layer = (24 * 24 + 24) * 8 + 16 * ranks + 2 * 64 + 64;
    const int gathered = shares_weights() ? 0 : 2;
    EXPECT_LE(peak, gathered * part_of_a_gather(layer) + slots * layer) << slots << " slots";
    EXPECT_GE(peak, gathered * least_layer / sharing_ranks() + least_layer);
  }
}

TEST(Memory, ABoundOnBytesMakesTheRingShorter) {
  const auto mesh = make_mesh();
  int largest_node = mesh->node_size();
  MPI_Allreduce(MPI_IN_PLACE, &largest_node, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  const auto peak = [&](int slots, std::optional<std::int64_t> bytes_of_a_rank) {
    Options options = make_options(Recipe::zero_3, 5);
    options.config.gradient_slots = slots;
    if (bytes_of_a_rank)
      options.config.gradient_slot_bytes = *bytes_of_a_rank * largest_node;
    return transient_peak(mesh, options);
  };
  constexpr std::int64_t two_slots = 2 * least_layer + least_layer / 2;
  const std::int64_t one = peak(1, std::nullopt), two = peak(2, std::nullopt), three = peak(3, std::nullopt);
  const bool has_more_room = mesh->node_size() < largest_node; // so much that three fit
  EXPECT_EQ(peak(3, two_slots), has_more_room ? three : two);
  EXPECT_EQ(peak(1, two_slots), one); // never longer
  EXPECT_EQ(peak(3, 0), one);
  EXPECT_EQ(peak(3, 100 * least_layer), three);
  EXPECT_LT(one, two);
  EXPECT_LT(two, three); // small gradients fit into every cache
}

TEST(Memory, NoShardNeedsNoTransientMemoryForF64) {
  const auto mesh = make_mesh();
  EXPECT_EQ(transient_peak(mesh, make_options(Recipe::no_shard, 3)), 0);
}

TEST(Memory, NothingIsAllocatedInASteadyStep) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int micro_batches : {1, 3}) {
      Options options = make_options(recipe, 4);
      options.micro_batches = micro_batches;
      Training<double> training(mesh, options);
      const auto arena = arena_of(training.context());
      training.step();
      const std::int64_t reserved = arena->reserved();
      const int growths = arena->growths();
      const std::int64_t peak = training.context().memory().transient_peak;
      for (int step = 0; step < 5; ++step)
        training.step();
      EXPECT_EQ(arena->reserved(), reserved) << text(recipe) << ", micro-batches " << micro_batches;
      EXPECT_EQ(arena->growths(), growths);
      EXPECT_EQ(training.context().memory().transient_peak, peak);
    }
}

TEST(Memory, TransientIsZeroAtRest) {
  const auto mesh = make_mesh();
  for (const DType storage : {DType::f64, DType::f32, DType::bf16})
    for (const Recipe recipe : all_recipes) {
      Options options = make_options(recipe, 3);
      options.storage = storage;
      const auto check = [](auto&& training) {
        EXPECT_EQ(training.context().memory().transient, 0);
        for (int step = 0; step < 2; ++step) {
          training.backward_all();
          EXPECT_EQ(training.context().memory().transient, 0);
          training.optimizer().step();
          EXPECT_EQ(training.context().memory().transient, 0);
        }
      };
      if (storage == DType::f64)
        check(Training<double>(mesh, options));
      else
        check(Training<float>(mesh, options));
    }
}

// Prefetch holds at most one module beside the one in use, and lets go what was not used.
TEST(Memory, GatheredModulesInAForwardPass) {
  const auto mesh = make_mesh();
  Training<double> training(mesh, make_options(Recipe::zero_3, 4));
  FsdpContext& context = training.context();
  const auto expect_gathered = [&](int modules) {
    const std::int64_t layer = least_layer + 16 * ranks + 2 * 64 + 64, found = context.memory().transient;
    EXPECT_GE(found, shares_weights() ? 0 : modules * least_layer / sharing_ranks());
    EXPECT_LE(found, shares_weights() ? 0 : modules * part_of_a_gather(layer));
  };
  training.module(0).pre_forward();
  expect_gathered(2); // 0 and, ahead, 1
  training.module(0).post_forward();
  expect_gathered(1);
  training.module(1).pre_forward();
  training.module(1).post_forward();
  context.finish_backward(); // 2 was gathered ahead
  EXPECT_EQ(context.memory().transient, 0);
  training.expect_usable("a forward pass that was broken off");
}

// What was gathered in 16 bits goes once it is expanded.
TEST(Memory, ExpandedWeightsAreTheOnlyCopy) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Options options = make_options(recipe, 2);
    options.storage = DType::bf16;
    Training<float> training(mesh, options);
    const std::int64_t elements = 24 * 24 + 24;
    training.module(1).pre_forward(); // nothing is gathered ahead
    EXPECT_GE(training.context().memory().transient, elements * 4) << text(recipe);
    EXPECT_LT(training.context().memory().transient, elements * 5) << text(recipe);
    training.module(1).post_forward();
    EXPECT_EQ(training.context().memory().transient, 0);
    training.context().finish_backward();
  }
}

TEST(Memory, Case36AllBytesComeBack) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    std::shared_ptr<memory::Arena> arena;
    const std::int64_t mesh_bytes = in_use(*mesh->arena());
    {
      Training<double> training(mesh, make_options(recipe, 3));
      arena = arena_of(training.context());
      training.step();
      EXPECT_GT(in_use(*arena), 0);
    }
    EXPECT_EQ(in_use(*arena), 0) << text(recipe);
    EXPECT_EQ(in_use(*mesh->arena()), mesh_bytes);
  }
}

TEST(Memory, NamedStatesOutliveTheContextButRefuseUpdates) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> training(mesh, make_options(recipe, 2));
    training.backward_all();
    auto states = training.context().named_states();
    auto optimizer = optim::make_sgd(states, {});
    const auto arena = states.front().main_weight.storage()->arena();
    training.destroy();
    expect_error(Status::INVALID_STATE, [&] { optimizer->step(); }, {"destroyed"});
    EXPECT_GT(in_use(*arena), 0);
    EXPECT_GT(states.front().main_weight.numel(), 0);
    states.clear();
    optimizer.reset();
    EXPECT_EQ(in_use(*arena), 0);
  }
}

// A context may go away in the middle of anything; memory in flight is not given to others before it is complete.
TEST(Memory, DestructionInTheMiddleOfAStep) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (int stop = 0;; ++stop) {
      std::shared_ptr<memory::Arena> arena;
      bool is_complete = false;
      {
        Training<double> training(mesh, make_options(recipe, 3));
        arena = arena_of(training.context());
        is_complete = training.pass(0, stop);
      }
      EXPECT_EQ(in_use(*arena), 0) << text(recipe) << ", event " << stop;
      if (is_complete)
        break;
    }
  Training<double> training(mesh, make_options(Recipe::zero_3, 3));
  training.expect_usable("destructions in the middle of a step"); // the message passing library is still sound
}

// What a rank queues runs without its further help: the last rank leaves the library after it asked for module 0, and
// the others get module 1, too.
TEST(Overlap, GathersAheadStartAtOnce) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const ScopedEnvironment unchecked("OSTRAKA_CHECK", "0"); // compared operations wait for all ranks to look
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "2");
  Training<double> t(mesh, make_options(Recipe::zero_3, 2));
  t.module(0).pre_forward();
  if (rank != ranks - 1) {
    EXPECT_NO_THROW(t.module(1).unshard());
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(Overlap, ReductionsStartAtOnce) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const ScopedEnvironment unchecked("OSTRAKA_CHECK", "0"); // compared operations wait for all ranks to look
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "2");
  Options options = make_options(Recipe::zero_3, 2);
  options.config.gradient_slots = 1;
  Training<double> t(mesh, options);
  t.module(0).unshard();
  t.pass(0, 2 * 2 + 3 + 1); // up to pre_backward of module 0
  // Ranks that share cores get here one after the other, and on a node each does its part when all have shown theirs.
  MPI_Barrier(MPI_COMM_WORLD);
  runtime::progress_all();
  if (rank != ranks - 1) {
    EXPECT_NO_THROW(t.module(0).gradient("weight", DType::f64)); // waits for the reduction of module 1
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

// Padding: at most 16 bytes a rank and 64 bytes a tensor (design, "Layouts"), in units of the smallest type.
TEST(Memory, PaddingIsBounded) {
  const auto mesh = make_mesh();
  for (const DType storage : {DType::f64, DType::f32, DType::bf16}) {
    const auto context = FsdpContext::create(mesh, make_config(Recipe::zero_3));
    FsdpModule& module = context->add_module("m");
    const std::vector<layout::Shape> shapes{{53, 37}, {53}, {101, 53}, {101}, {7, 101}, {7}};
    std::int64_t payload = 0;
    for (std::size_t i = 0; i < shapes.size(); ++i) {
      module.add_parameter({"p" + std::to_string(i), shapes[i], storage, true});
      payload += layout::numel(shapes[i]);
    }
    module.build();
    context->finalize();
    const auto& plan = *context->named_states().front().main_weight.layout();
    const std::int64_t width = width_of(storage), tensors = static_cast<std::int64_t>(shapes.size());
    EXPECT_EQ(plan.payload(), payload);
    EXPECT_EQ(context->memory().num_elements, payload);
    EXPECT_LE(plan.padding() * width, 16 * ranks + 64 * tensors) << name(storage);
    const std::int64_t main = storage == DType::f64 ? 8 : 4, model = storage == DType::bf16 ? 2 : 0;
    EXPECT_LE(context->memory().parameters, (plan.size() / ranks) * (main + model) + 2 * memory::Arena::alignment);
    EXPECT_GE(context->memory().parameters * ranks, payload * (main + model));
  }
}

TEST(Memory, ReportByKind) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> training(mesh, make_options(recipe, 2));
    const bool is_sharded = recipe == Recipe::zero_3;
    const std::int64_t elements = 2 * (24 * 24 + 24), shards = is_sharded || cuts_updates() ? ranks : 1;
    // no_shard has whole weights at rest: where nodes share memory, a copy per node.
    const std::int64_t copies = is_sharded ? ranks : cuts_updates() ? sharing_ranks() : 1;
    const auto expect_about = [&](std::int64_t bytes, std::int64_t expected) {
      EXPECT_GE(bytes, expected);
      EXPECT_LE(bytes, expected + 2 * 2 * (16 + 2 * 64 + 64)); // padding and rounding of at most two buffers a layer
    };
    expect_about(training.context().memory().parameters, elements * 8 / copies);
    EXPECT_EQ(training.context().memory().optimizer_state, 0);
    training.step();
    const MemoryReport report = training.context().memory();
    expect_about(report.parameters, elements * 8 / copies);
    expect_about(report.gradients, elements * 8 / (is_sharded ? ranks : 1));
    expect_about(report.optimizer_state, elements * 2 * 8 / shards);
    EXPECT_EQ(report.num_elements, elements);
  }
}

} // namespace
} // namespace ostraka::fsdp::test
