// SPDX-License-Identifier: Apache-2.0
// Random module trees (nesting, ties, frozen and unused parameters, repeats, skips, recomputation, recipes, budgets)
// against dense training. An entry has seeds of its own: 100 cases on up to three ranks, 50 on more; ten times as many
// under scripts/test --full.
#include "support/rounds.hpp"
#include "tree_draw.hpp"
#include "tree_run.hpp"

#include <map>

namespace ostraka::fsdp::test::trees {
namespace {

/// Whether any rank has failed. Collective.
bool have_failed() {
  int failed = testing::Test::HasFailure() ? 1 : 0;
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return failed != 0;
}

void run_cases(std::uint64_t seed, int count) {
  if (const char* one = std::getenv("OSTRAKA_TEST_SEED"); one != nullptr)
    seed = std::strtoull(one, nullptr, 10), count = 1;
  setenv("OSTRAKA_CHECK", "1", 0);
  std::map<std::vector<int>, buffer::MeshPtr> meshes;
  for (int i = 0; i < count && !have_failed(); ++i) {
    const Plan plan = draw_plan(seed + i, ranks);
    SCOPED_TRACE("seed " + std::to_string(plan.seed) + ", recipe " +
                 fsdp::test::text(static_cast<Recipe>(plan.recipe)));
    try {
      buffer::MeshPtr& mesh = meshes[plan.mesh];
      if (mesh == nullptr)
        mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, plan.mesh);
      TreeRun(plan, mesh).run();
    } catch (const Error& error) {
      ADD_FAILURE() << name(error.status()) << ": " << error.what();
    }
  }
}

/// Of this number of ranks and back end alone; printed.
std::uint64_t fixed_seed() {
  const int seed = 1'000'000 * (10 * ranks + (cuts_updates() ? ranks_per_node() : 0));
  if (rank == 0)
    std::printf("RandomTree.FixedSeed: seed %d\n", seed);
  return static_cast<std::uint64_t>(seed);
}

/// Ranks beyond the cores take turns.
int cases() { return rounds(is_on_device() ? 6 : ranks < 4 ? 50 : 25); }

TEST(RandomTree, FixedSeed) { run_cases(fixed_seed(), cases()); }
TEST(RandomTree, FreshSeed) { run_cases(fresh_seed("RandomTree.FreshSeed"), cases()); }

} // namespace
} // namespace ostraka::fsdp::test::trees
