// SPDX-License-Identifier: Apache-2.0
// What the ranks of a node hold together. All ranks of a test stand on one machine.
#include "network.hpp"
#include "support/scoped_environment.hpp"

#include <unistd.h>

#include <array>

namespace ostraka::fsdp::test {
namespace {

Options make_options(Recipe recipe) {
  Options options;
  options.net = mlp({24, 24, 24, 24});
  options.config = make_config(recipe);
  options.optimizer.is_adamw = true;
  return options;
}

constexpr std::int64_t elements = 3 * (24 * 24 + 24);

std::array<std::int64_t, 6> summed(const MemoryReport& report) {
  return {report.parameters, report.gradients,      report.optimizer_state,
          report.transient,  report.transient_peak, report.reserved};
}

void expect_sums(Recipe recipe) {
  Training<double> training(make_mesh(), make_options(recipe));
  training.step();
  training.module(0).unshard();
  auto expected = summed(training.context().memory());
  const MemoryReport found = training.context().node_memory();
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank / ranks_per_node(), rank, &node);
  MPI_Allreduce(MPI_IN_PLACE, expected.data(), static_cast<int>(expected.size()), MPI_INT64_T, MPI_SUM, node);
  MPI_Comm_free(&node);
  EXPECT_EQ(summed(found), expected) << text(recipe);
  EXPECT_EQ(found.num_elements, elements);
  EXPECT_GE(found.reserved, found.parameters + found.gradients + found.optimizer_state);
  training.module(0).reshard();
  training.expect_usable("a look at the node");
}

TEST(NodeMemory, IsTheSumOverTheRanksOfTheNode) {
  for (const Recipe recipe : all_recipes)
    expect_sums(recipe);
}

/// Meshes of 2, 3, ... ranks with the node back end, all on one node.
template <class Check>
void for_each_size(Check&& check) {
  const ScopedEnvironment backend("OSTRAKA_BACKEND", "node"), one_node("OSTRAKA_RANKS_PER_NODE", nullptr);
  for (int size = 2; size <= ranks; ++size) {
    MPI_Comm group = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank < size ? 0 : MPI_UNDEFINED, rank, &group);
    if (group == MPI_COMM_NULL)
      continue;
    check(mesh::DeviceMesh::create(group, {size}));
    MPI_Comm_free(&group);
  }
}

std::shared_ptr<FsdpContext> make_model(const buffer::MeshPtr& mesh, Recipe recipe, DType storage, bool trainable) {
  auto context = FsdpContext::create(mesh, make_config(recipe));
  FsdpModule& module = context->add_module("m");
  module.add_parameter({"weight", {601, 11}, storage, trainable});
  module.add_parameter({"bias", {601}, storage, trainable});
  module.build();
  context->finalize();
  return context;
}

constexpr std::int64_t model_elements = 601 * 11 + 601;

TEST(NodeMemory, WeightsOfANodeDoNotGrowWithItsRanks) {
  for_each_size([](const buffer::MeshPtr& mesh) {
    for (const Recipe recipe : all_recipes)
      for (const DType storage : {DType::f64, DType::f32, DType::bf16}) {
        const auto context = make_model(mesh, recipe, storage, true);
        const std::int64_t main = storage == DType::bf16 ? 4 : 0, bytes = model_elements * (width_of(storage) + main);
        const std::int64_t found = context->node_memory().parameters;
        SCOPED_TRACE(std::string(text(recipe)) + ", " + name(storage) + ", ranks " + std::to_string(mesh->size()));
        EXPECT_GE(found, bytes);
        EXPECT_LE(found, bytes + 2 * (2 * 64 + (16 + 64) * mesh->size())); // padding of two buffers
      }
  });
}

// Frozen weights need nothing but the shared copy: whole pages, each taken once.
TEST(NodeMemory, EveryPageCountsOnce) {
  for_each_size([](const buffer::MeshPtr& mesh) {
    const auto context = make_model(mesh, Recipe::zero_3, DType::f64, false);
    const MemoryReport found = context->node_memory();
    const std::int64_t page = sysconf(_SC_PAGESIZE);
    EXPECT_EQ(found.reserved, (found.parameters + page - 1) / page * page) << mesh->size() << " ranks";
    EXPECT_EQ(context->memory().parameters * mesh->size(), found.parameters);
  });
}

} // namespace
} // namespace ostraka::fsdp::test
