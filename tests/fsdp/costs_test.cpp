// SPDX-License-Identifier: Apache-2.0
// How many collectives a step takes (the table of spec 3.9), counted where the library calls MPI.
#include "network.hpp"
#include "support/mpi_calls.hpp"
#include "support/scoped_environment.hpp"

namespace ostraka::fsdp::test {
namespace {

constexpr int layers = 4;

struct Collectives {
  int gathers;
  int reduce_scatters;
  int allreduces;
  bool operator==(const Collectives&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Collectives& count) {
  return out << count.gathers << " all-gathers, " << count.reduce_scatters << " reduce-scatters, " << count.allreduces
             << " all-reduces";
}

/// Since the last call.
Collectives take_calls() {
  const MpiCalls calls = mpi_calls;
  mpi_calls = {};
  return {calls.of("MPI_Iallgather") + calls.of("MPI_Iallgatherv"),
          calls.of("MPI_Ireduce_scatter_block") + calls.of("MPI_Ireduce_scatter"), calls.of("MPI_Iallreduce")};
}

/// Those of a step that is neither the first nor the last, without the agreement of every finish_backward.
Collectives of_a_step(const buffer::MeshPtr& mesh, Recipe recipe, int micro_batches) {
  Options options;
  options.net = mlp({6, 6, 6, 6, 6});
  options.config = make_config(recipe, layout::ReduceOp::sum);
  options.micro_batches = micro_batches;
  Training<double> training(mesh, options);
  training.step();
  take_calls();
  training.context().finish_backward();
  const Collectives agreement = take_calls();
  training.step();
  Collectives step = take_calls();
  step.gathers -= micro_batches * agreement.gathers;
  step.reduce_scatters -= micro_batches * agreement.reduce_scatters;
  step.allreduces -= micro_batches * agreement.allreduces;
  return step;
}

/// Per step of `m` micro-batches.
Collectives expected(Recipe recipe, int m) {
  switch (recipe) {
  case Recipe::no_shard:
    return {0, 0, layers};
  case Recipe::zero_1:
    return {layers, layers, 0};
  case Recipe::zero_2:
    return {layers, layers * m, 0};
  case Recipe::zero_3:
    return {2 * layers * m, layers * m, 0};
  case Recipe::hsdp:
    return {2 * layers * m, layers * m, layers};
  case Recipe::hfsdp:
    return {2 * layers * m + layers, layers * (m + 1), 0};
  case Recipe::zero_1_zero_2:
    return {2 * layers, layers * (m + 1), 0};
  }
  return {};
}

TEST(Costs, CollectivesOfAStep) {
  const ScopedEnvironment backend("OSTRAKA_BACKEND", "mpi"), check("OSTRAKA_CHECK", nullptr);
  if (ranks == 1)
    GTEST_SKIP() << "one rank has nothing to communicate";
  const auto line = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  for (int number = 0; number <= static_cast<int>(Recipe::zero_1_zero_2); ++number)
    for (const int micro_batches : {1, 2, 3}) {
      const auto recipe = static_cast<Recipe>(number);
      if (recipe > Recipe::zero_3 && ranks != 4)
        continue; // an axis of one rank needs no messages
      const auto mesh = recipe > Recipe::zero_3 ? mesh::DeviceMesh::create(MPI_COMM_WORLD, {2, 2}) : line;
      EXPECT_EQ(of_a_step(mesh, recipe, micro_batches), expected(recipe, micro_batches))
          << text(recipe) << ", micro-batches " << micro_batches;
    }
}

} // namespace
} // namespace ostraka::fsdp::test
