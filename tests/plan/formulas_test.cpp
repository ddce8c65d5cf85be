// SPDX-License-Identifier: Apache-2.0
// Dry runs against formulas that everybody knows (spec 3.2, 3.9), and against time lines by hand.
#include "networks.hpp"
#include <ostraka/fsdp/module_tree.hpp>
#include <ostraka/fsdp/reservation.hpp>
#include <ostraka/plan/dry_run.hpp>

#include <gtest/gtest.h>

namespace ostraka::plan::test {
namespace {

using fsdp::Recipe;

/// Layers of `elements` bf16 weights; main weights, gradients and moments in f32.
Request mixed(int layers, std::int64_t elements, std::vector<Axis> mesh, Recipe recipe) {
  Request request;
  request.backend = Backend::mpi;
  request.mesh = std::move(mesh);
  request.config.recipe = recipe;
  request.units.resize(1);
  request.units[0].name = "layer";
  request.units[0].count = layers;
  request.units[0].parameters = {{"weight", {elements}, DType::bf16, true}};
  return request;
}

double expected_bytes(Recipe recipe, double n, double inner) {
  switch (recipe) {
  case Recipe::no_shard:
    return 18;
  case Recipe::zero_1:
    return 6 + 12 / n;
  case Recipe::zero_2:
    return 2 + 16 / n;
  case Recipe::zero_3:
    return 18 / n;
  case Recipe::hsdp:
    return 18 / inner;
  case Recipe::hfsdp:
    return 6 / inner + 12 / n;
  case Recipe::zero_1_zero_2:
    return 2 + 4 / inner + 12 / n;
  }
  return 0;
}

TEST(Formulas, BytesAParameter) {
  for (const int outer : {1, 4, 64})
    for (const int inner : {2, 8, 256})
      for (int number = 0; number <= static_cast<int>(Recipe::zero_1_zero_2); ++number) {
        const auto recipe = static_cast<Recipe>(number);
        const Report report = dry_run(mixed(3, std::int64_t{1} << 24, {{"outer", outer}, {"inner", inner}}, recipe));
        const double expected = expected_bytes(recipe, outer * inner, inner);
        SCOPED_TRACE("recipe " + std::to_string(number) + ", " + std::to_string(outer) + " x " + std::to_string(inner));
        EXPECT_NEAR(report.formula_bytes_per_parameter, expected, 1e-12 * expected);
        EXPECT_EQ(report.padding_elements, 0);
        EXPECT_DOUBLE_EQ(report.bytes_per_parameter, expected); // these sizes need no padding
      }
}

// Of a step of `m` micro-batches of four layers.
struct Collectives {
  std::int64_t gathers, reduce_scatters, allreduces;
  bool operator==(const Collectives&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Collectives& count) {
  return out << count.gathers << " all-gathers, " << count.reduce_scatters << " reduce-scatters, " << count.allreduces
             << " all-reduces";
}

Collectives expected_collectives(Recipe recipe, std::int64_t m) {
  switch (recipe) {
  case Recipe::no_shard:
    return {0, 0, 4};
  case Recipe::zero_1:
    return {4, 4, 0};
  case Recipe::zero_2:
    return {4, 4 * m, 0};
  case Recipe::zero_3:
    return {8 * m, 4 * m, 0};
  case Recipe::hsdp:
    return {8 * m, 4 * m, 4};
  case Recipe::hfsdp:
    return {8 * m + 4, 4 * (m + 1), 0};
  case Recipe::zero_1_zero_2:
    return {8, 4 * (m + 1), 0};
  }
  return {};
}

TEST(Formulas, CollectivesOfAStep) {
  for (int number = 0; number <= static_cast<int>(Recipe::zero_1_zero_2); ++number)
    for (const int m : {1, 2, 3}) {
      const auto recipe = static_cast<Recipe>(number);
      const bool is_plane = recipe > Recipe::zero_3;
      Request request =
          mixed(4, 4096, is_plane ? std::vector<Axis>{{"a", 8}, {"b", 8}} : std::vector<Axis>{{"a", 64}}, recipe);
      request.micro_batches = m;
      const Report report = dry_run(request);
      Collectives found{0, 0, 0};
      for (const AxisTraffic& axis : report.axes) {
        found.gathers += axis.collectives[static_cast<std::size_t>(Collective::allgather)];
        found.reduce_scatters += axis.collectives[static_cast<std::size_t>(Collective::reduce_scatter)];
        found.allreduces += axis.collectives[static_cast<std::size_t>(Collective::allreduce)];
      }
      EXPECT_EQ(found, expected_collectives(recipe, m)) << "recipe " << number << ", micro-batches " << m;
    }
}

// Two gathered layers and two slots; one queue and one slot take a layer less (spec 3.9).
TEST(Formulas, TransientPeakOfZero3) {
  Request request = mixed(6, std::int64_t{1} << 20, {{"data", 4}}, Recipe::zero_3);
  request.units[0].parameters[0].dtype = DType::f32;
  const std::int64_t layer = std::int64_t{4} << 20;
  EXPECT_EQ(dry_run(request).bytes.transient_peak, 4 * layer);
  EXPECT_EQ(dry_run(request).bytes.gathered_peak, 2 * layer);
  EXPECT_EQ(dry_run(request).bytes.slots_peak, 2 * layer);
  request.config.unified_stream = true;
  request.config.gradient_slots = 1;
  EXPECT_EQ(dry_run(request).bytes.transient_peak, 3 * layer);
}

// What crosses the wire in a step of ZeRO-3: two gathers and a reduce-scatter of (n-1)/n each.
TEST(Formulas, TrafficOfZero3) {
  const std::int64_t elements = std::int64_t{1} << 20;
  const Report report = dry_run(mixed(5, elements, {{"data", 16}}, Recipe::zero_3));
  const std::int64_t whole = 5 * elements;
  EXPECT_EQ(report.axes[0].moved, whole * (2 + 2 + 4));
  EXPECT_EQ(report.axes[0].sent, whole * (2 + 2 + 4) / 16 * 15);
  EXPECT_EQ(report.axes[0].received, report.axes[0].sent);
  EXPECT_EQ(report.axes[0].backend, "mpi");
}

// Within a node nothing is sent; between nodes each byte crosses once, whatever the ranks of a node.
TEST(Formulas, TrafficBetweenNodes) {
  Request request = mixed(1, std::int64_t{1} << 20, {{"data", 16}}, Recipe::zero_3);
  request.backend = Backend::node;
  EXPECT_EQ(dry_run(request).axes[0].sent, 0);
  EXPECT_EQ(dry_run(request).axes[0].backend, "node");
  request.ranks_per_node = 4;
  const Report report = dry_run(request);
  EXPECT_EQ(report.axes[0].backend, "hierarchical");
  const std::int64_t whole = std::int64_t{1} << 20;
  EXPECT_EQ(report.axes[0].received, whole * (2 + 2 + 4) / 4 * 3 / 4); // what is not the node's, among its four ranks
}

// One copy of the weights per node, moments and main weights cut among all.
TEST(Formulas, NodesKeepWholeWeightsOnce) {
  Request request = mixed(4, std::int64_t{1} << 20, {{"data", 16}}, Recipe::zero_1);
  request.backend = Backend::node;
  request.ranks_per_node = 8;
  const Report report = dry_run(request);
  const std::int64_t all = std::int64_t{4} << 20;
  EXPECT_EQ(report.node_bytes.model_weights, 2 * all);
  EXPECT_EQ(report.bytes.model_weights, 2 * all / 8);
  EXPECT_EQ(report.node_bytes.main_weights, 4 * all / 2);
  EXPECT_EQ(report.node_bytes.moments, 8 * all / 2);
  EXPECT_EQ(report.node_bytes.main_gradients, 8 * 4 * all);
  EXPECT_GT(report.node_bytes.shared_memory, 2 * all);
  EXPECT_DOUBLE_EQ(report.formula_bytes_per_parameter, 2.0 / 8 + 4 + 12.0 / 16);
}

// Where nodes keep whole weights, what several ranks would update is cut among all, whatever the recipe.
TEST(Formulas, NodesCutTheUpdatesOfNoShard) {
  Request request = mixed(4, std::int64_t{1} << 20, {{"data", 16}}, Recipe::no_shard);
  request.backend = Backend::node;
  request.ranks_per_node = 8;
  EXPECT_DOUBLE_EQ(dry_run(request).bytes_per_parameter, 2.0 / 8 + 4 + 12.0 / 16);
}

// Weights that are handed out in another type are kept in that one only: 8 bytes, and 4 while a gather or a gradient
// goes on.
TEST(Formulas, TransientPeakWhereTypesDiffer) {
  Request request = mixed(1, std::int64_t{1} << 20, {{"data", 4}}, Recipe::zero_3);
  request.units[0].parameters[0].dtype = DType::f32;
  request.config.compute_dtype = DType::f64;
  EXPECT_EQ(dry_run(request).bytes.transient_peak, std::int64_t{8 + 4} << 20);
}

// Caches bound it on one node only, and for all ranks of the node together; a bound that is set applies everywhere.
TEST(Formulas, TheRingOfGradientSlots) {
  Request request = mixed(8, std::int64_t{1} << 20, {{"data", 4}}, Recipe::zero_3); // slots of 4 MiB
  request.backend = Backend::node;
  request.config.gradient_slots = 6;
  EXPECT_EQ(dry_run(request).gradient_slots, 6);
  request.cache_bytes = std::int64_t{4 * 3 * 4} << 20;
  EXPECT_EQ(dry_run(request).gradient_slots, 3);
  request.cache_bytes = 1;
  EXPECT_EQ(dry_run(request).gradient_slots, 1);
  request.ranks_per_node = 2;
  EXPECT_EQ(dry_run(request).gradient_slots, 6);
  request.config.gradient_slot_bytes = std::int64_t{2 * 2 * 4} << 20;
  EXPECT_EQ(dry_run(request).gradient_slots, 2);
  EXPECT_EQ(dry_run(request).bytes.slots_peak, std::int64_t{2 * 4} << 20);
}

// Three modules inside each other keep their slots at once, and two behind each other do not; a ring of one slot then
// has three. ZeRO-2 gathers nothing ahead, so slots are all that comes and goes.
TEST(Formulas, SlotsOfModulesInsideModules) {
  constexpr std::int64_t slot = std::int64_t{4} << 20;
  Request request = mixed(1, std::int64_t{1} << 20, {{"data", 4}}, Recipe::zero_2);
  request.config.gradient_slots = 1;
  request.config.compute_dtype = DType::bf16;
  request.units.resize(5, request.units.front());
  fsdp::ModuleTree tree;
  std::vector<fsdp::ModuleNeeds> needs(5);
  const std::optional<int> parents[] = {std::nullopt, 0, 1, 1, std::nullopt};
  for (std::size_t u = 0; u < 5; ++u) {
    request.units[u].name = "u" + std::to_string(u);
    request.units[u].parent = parents[u];
    tree.add(request.units[u].name, parents[u]);
    needs[u].slots = 1;
    needs[u].slot_bytes = slot;
  }
  const fsdp::SlotNeeds found = fsdp::slot_needs(tree.backward(), needs);
  EXPECT_EQ(found.bytes, slot);
  EXPECT_EQ(found.needed, 5);
  EXPECT_EQ(found.at_once, 3);
  const Report report = dry_run(request);
  EXPECT_EQ(report.gradient_slots, 1);
  EXPECT_EQ(report.bytes.slots_peak, 3 * slot);
  EXPECT_EQ(report.bytes.transient_peak, 3 * slot);
}

// --- time lines

/// Two ranks, ZeRO-3; gathers and reduce-scatters take a second each, updates and agreements nothing.
Request timed(int modules) {
  Request request;
  request.backend = Backend::nccl;
  request.mesh = {{"data", 2}};
  request.units.resize(1);
  request.units[0] = {"layer", modules, {{"w", {1 << 16}, DType::f64, true}}, 3, 5};
  request.machine.axes = {{0, (1 << 16) * 8 / 2.0}};
  request.machine.network = {0, 1e300};
  request.machine.memory_bandwidth = 1e300;
  return request;
}

TEST(TimeLine, OneModule) {
  const Report report = dry_run(timed(1));
  EXPECT_NEAR(report.step_s, 1 + 3 + 1 + 5 + 1, 1e-9);
  EXPECT_NEAR(report.arithmetic_s, 8, 1e-9);
  EXPECT_NEAR(report.exposed_s, 3, 1e-9);
  ASSERT_GE(report.spans.size(), 5u);
  EXPECT_EQ(report.spans[0].operation, "allgather");
  EXPECT_EQ(report.spans[0].track, Span::Track::gather);
  EXPECT_EQ(report.spans[1].operation, "forward");
  EXPECT_NEAR(report.spans[1].begin_s, 1, 1e-9);
  EXPECT_NEAR(report.spans[1].end_s, 4, 1e-9);
}

// The second gather hides behind the first forward pass, the first reduction behind the second backward pass.
TEST(TimeLine, OverlapOfTwoModules) {
  const Report report = dry_run(timed(2));
  EXPECT_NEAR(report.step_s, 1 + 3 + 3 + 1 + 5 + 5 + 1, 1e-9);
  EXPECT_NEAR(report.exposed_s, 3, 1e-9);
}

TEST(TimeLine, NothingGatheredAheadHidesNothing) {
  Request request = timed(2);
  request.config.prefetch = 0;
  EXPECT_NEAR(dry_run(request).step_s, 1 + 3 + 1 + 3 + 1 + 5 + 1 + 5 + 1, 1e-9);
}

// Reductions that take longer than a backward pass: with one slot the next producer waits.
TEST(TimeLine, AProducerWaitsForItsSlot) {
  Request request = timed(3);
  request.units[0].backward_s = 0.25;
  request.config.prefetch = 1 << 30;
  request.config.gradient_slots = 1;
  // Gathers of the backward pass: 1, 2, 3 s; the second producer waits for the first reduction, and so on.
  const double forward = 1 + 3 + 3 + 3, first = forward + 1 + 0.25 + 1;
  EXPECT_NEAR(dry_run(request).step_s, first + 2 * (0.25 + 1), 1e-9);
  request.config.gradient_slots = 3; // reductions one behind the other, gathers before them
  EXPECT_NEAR(dry_run(request).step_s, forward + 3 + 0.25 + 1, 1e-9);
}

TEST(TimeLine, OneQueueTakesTurns) {
  Request request = timed(2);
  const double apart = dry_run(request).step_s;
  request.config.unified_stream = true;
  EXPECT_GE(dry_run(request).step_s, apart);
  for (const Span& span : dry_run(request).spans)
    EXPECT_NE(span.track, Span::Track::reduce);
}

} // namespace
} // namespace ostraka::plan::test
