// SPDX-License-Identifier: Apache-2.0
// Dry runs say what the library then does: memory byte for byte, operations call for call.
#include "agreement.hpp"
#include "networks.hpp"
#include "support/rounds.hpp"

namespace ostraka::plan::test {
namespace {

const char* text(fsdp::Recipe recipe) {
  constexpr const char* names[] = {"no_shard", "zero_1", "zero_2", "zero_3", "hsdp", "hfsdp", "zero_1_zero_2"};
  return names[static_cast<int>(recipe)];
}

std::vector<Axis> line() { return {{"data", ranks}}; }
std::vector<Axis> plane() {
  const int outer = ranks % 2 == 0 ? 2 : 1;
  return {{"replica", outer}, {"shard", ranks / outer}};
}

/// Calls body(request) for all recipes, on meshes that fit.
template <class Body>
void for_all_recipes(Body&& body) {
  for (int number = 0; number <= static_cast<int>(fsdp::Recipe::zero_1_zero_2); ++number)
    for (const bool is_plane : {false, true}) {
      Request request;
      request.config.recipe = static_cast<fsdp::Recipe>(number);
      if (request.config.recipe > fsdp::Recipe::zero_3 && !is_plane)
        continue;
      request.mesh = is_plane ? plane() : line();
      SCOPED_TRACE(std::string(text(request.config.recipe)) + (is_plane ? " on a plane" : " on a line"));
      body(request);
    }
}

TEST(Agreement, SteamInAllRecipes) {
  for_all_recipes([](Request& request) {
    request.units = steam();
    request.micro_batches = 2;
    expect_agreement(request);
  });
}

TEST(Agreement, DigitsInAllRecipesWith16Bits) {
  for_all_recipes([](Request& request) {
    request.units = digits(DType::bf16);
    request.optimizer = Optimizer::sgd_momentum;
    request.config.unified_stream = true;
    request.config.gradient_slots = 1;
    expect_agreement(request);
  });
}

TEST(Agreement, DigitsFusedInAllRecipes) {
  for_all_recipes([](Request& request) {
    request.units = digits(DType::f32);
    request.fuse_with_reduction = true;
    request.config.prefetch = 10000;
    request.config.gradient_slots = 3;
    expect_agreement(request);
  });
}

// Gradients in 16 bits, whose sums are messages of our own; weights handed out in a type of their own.
TEST(Agreement, TypesThatDiffer) {
  for_all_recipes([](Request& request) {
    if (request.config.recipe == fsdp::Recipe::no_shard || request.config.recipe == fsdp::Recipe::zero_1)
      return; // gradients add up in the main gradient itself
    request.units = digits(DType::f32);
    request.config.reduction_dtype = DType::bf16;
    request.config.compute_dtype = DType::bf16;
    request.config.main_dtype = DType::f64;
    request.config.prefetch = 0;
    request.micro_batches = 3;
    expect_agreement(request);
  });
}

TEST(Agreement, BoundsOfTheRing) {
  for (const std::int64_t bytes : {std::int64_t{0}, std::int64_t{100000}, std::int64_t{1} << 40}) {
    Request request;
    request.units = digits(DType::f32);
    request.mesh = line();
    request.config.gradient_slots = 4;
    request.config.gradient_slot_bytes = bytes;
    SCOPED_TRACE("gradient_slot_bytes " + std::to_string(bytes));
    expect_agreement(request);
  }
}

TEST(Agreement, PlacementsByHand) {
  const layout::Placement whole = layout::replicate(), cut = layout::shard(),
                          sum = layout::partial(layout::ReduceOp::mean);
  Request request;
  request.units = steam();
  request.mesh = plane();
  request.config.placements = fsdp::RecipePlacements{{whole, whole}, {sum, cut}, {whole, cut}};
  expect_agreement(request);
  request.config.placements = fsdp::RecipePlacements{{cut, cut}, {sum, sum}, {cut, cut}};
  expect_agreement(request);
  request.config.placements = fsdp::RecipePlacements{{whole, cut}, {whole, cut}, {whole, cut}};
  request.config.placements->gradient = {sum, sum};
  expect_agreement(request);
}

// Blocks of several groups, tensors without elements, frozen ones, repeats of units.
TEST(Agreement, ManyGroups) {
  for_all_recipes([](Request& request) {
    Unit odd;
    odd.name = "odd";
    odd.count = 2;
    odd.parameters = {{"a", {7, 3}, DType::f64, true},    {"b", {5}, DType::bf16, true},
                      {"none", {0, 4}, DType::f32, true}, {"c", {300, 11}, DType::f32, true},
                      {"fixed", {9}, DType::f32, false},  {"d", {}, DType::f64, true}};
    Unit outer;
    outer.name = "outer";
    outer.parameters = {{"w", {1000}, DType::f64, true}};
    Unit empty;
    empty.name = "empty";
    request.units = {outer, odd, empty};
    request.units[1].parent = 0;
    request.units[2].parent = 0;
    expect_agreement(request);
  });
}

// The last one is gathered ahead, as is expected, and then nobody uses it.
TEST(Agreement, AModuleThatIsLeftOut) {
  using fsdp::Hook;
  for_all_recipes([](Request& request) {
    request.units = steam();
    request.forward = {
        {0, Hook::pre_forward}, {0, Hook::post_forward}, {1, Hook::pre_forward}, {1, Hook::post_forward}};
    request.backward = {
        {1, Hook::pre_backward}, {1, Hook::post_backward}, {0, Hook::pre_backward}, {0, Hook::post_backward}};
    expect_agreement(request);
  });
}

void run_trees(std::uint64_t seed, int count) {
  if (const char* one = std::getenv("OSTRAKA_TEST_SEED"); one != nullptr)
    seed = std::strtoull(one, nullptr, 10), count = 1;
  for (int i = 0; i < count; ++i) {
    const TreeRequest tree(seed + static_cast<std::uint64_t>(i), ranks);
    SCOPED_TRACE("seed " + std::to_string(seed + static_cast<std::uint64_t>(i)));
    expect_agreement(tree.request());
    int failed = testing::Test::HasFailure() ? 1 : 0;
    MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (failed != 0)
      return;
  }
}

TEST(Agreement, RandomTrees) { run_trees(7'000'000 + static_cast<std::uint64_t>(ranks), rounds(8)); }
TEST(Agreement, FreshRandomTrees) { run_trees(fresh_seed("Agreement.FreshRandomTrees"), rounds(4)); }

} // namespace
} // namespace ostraka::plan::test
