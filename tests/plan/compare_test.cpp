// SPDX-License-Identifier: Apache-2.0
#include "networks.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/plan/compare.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <functional>

namespace ostraka::plan::test {
namespace {

using fsdp::Recipe;

template <class Action>
void expect_error(Status status, const std::vector<std::string>& parts, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "expected an error with '" << parts[0] << "', nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(ostraka::name(error.status()), ostraka::name(status)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
  }
}

Request small() {
  Request request;
  request.backend = Backend::mpi;
  request.mesh = {{"a", 2}, {"b", 4}};
  request.units = digits(DType::f32);
  return request;
}

TEST(Compare, EveryRecipeAsAlone) {
  Request request = small();
  const auto recipes = all_recipes();
  const std::vector<Outcome> outcomes = compare(request, recipes);
  ASSERT_EQ(outcomes.size(), 7u);
  for (const Outcome& outcome : outcomes) {
    request.config.recipe = outcome.recipe;
    ASSERT_TRUE(outcome.report) << outcome.refused;
    EXPECT_EQ(outcome.report->recipe, outcome.recipe);
    EXPECT_EQ(outcome.report->bytes, dry_run(request).bytes);
    EXPECT_EQ(outcome.report->calls, dry_run(request).calls);
  }
}

TEST(Compare, ARecipeThatNeedsMoreAxesIsAnOutcome) {
  Request request = small();
  request.mesh = {{"a", 8}};
  const std::vector<Outcome> outcomes = compare(request, all_recipes());
  for (const Outcome& outcome : outcomes) {
    EXPECT_EQ(outcome.report.has_value(), outcome.recipe <= Recipe::zero_3);
    EXPECT_EQ(outcome.refused.empty(), outcome.recipe <= Recipe::zero_3);
  }
  request.micro_batches = 0;
  expect_error(Status::INVALID_ARGUMENT, {"micro_batches"}, [&] { compare(request, all_recipes()); });
}

TEST(Compare, TheCheapestThatFits) {
  const std::vector<Outcome> outcomes = compare(small(), all_recipes());
  const auto without = cheapest(outcomes, {});
  ASSERT_TRUE(without);
  for (const Outcome& outcome : outcomes)
    EXPECT_LE(outcomes[static_cast<std::size_t>(*without)].report->step_s, outcome.report->step_s);
  const std::int64_t least = outcomes[3].report->bytes.peak; // of zero_3
  const auto fitting = cheapest(outcomes, {.rank_bytes = least, .node_bytes = {}});
  ASSERT_TRUE(fitting);
  for (const Outcome& outcome : outcomes)
    if (outcome.report->bytes.peak <= least) {
      EXPECT_LE(outcomes[static_cast<std::size_t>(*fitting)].report->step_s, outcome.report->step_s);
    }
  EXPECT_LE(outcomes[static_cast<std::size_t>(*fitting)].report->bytes.peak, least);
  EXPECT_FALSE(cheapest(outcomes, {.rank_bytes = 1000, .node_bytes = {}}));
  EXPECT_FALSE(cheapest(outcomes, {.rank_bytes = {}, .node_bytes = 1000}));
}

TEST(Compare, TheLargestModelThatFits) {
  Request request = small();
  request.units = {{"layer", 1, {{"w", {1000}, DType::f32, true}}}};
  for (const std::int64_t limit : {std::int64_t{100000}, std::int64_t{1234567}}) {
    const auto found = largest(request, 0, {.rank_bytes = limit, .node_bytes = {}});
    ASSERT_TRUE(found);
    request.units[0].count = found->count;
    EXPECT_EQ(found->report.bytes, dry_run(request).bytes);
    EXPECT_LE(found->report.bytes.peak, limit);
    request.units[0].count = found->count + 1;
    EXPECT_GT(dry_run(request).bytes.peak, limit);
  }
  EXPECT_FALSE(largest(request, 0, {.rank_bytes = 100, .node_bytes = {}}));
  expect_error(Status::INVALID_ARGUMENT, {"unit", "1"}, [&] { largest(request, 1, {}); });
  expect_error(Status::INVALID_ARGUMENT, {"no limit"}, [&] { largest(request, 0, {}); });
}

TEST(Compare, LayoutsOfPolicies) {
  Request request = small();
  request.units = {{"odd",
                    1,
                    {{"a", {53, 37}, DType::f32, true},
                     {"b", {53}, DType::f32, true},
                     {"c", {101, 53}, DType::f32, true},
                     {"d", {101}, DType::f32, true},
                     {"e", {7, 101}, DType::f32, true},
                     {"f", {7}, DType::f32, true}}}};
  request.mesh = {{"a", 4}};
  const std::vector<UnitLayouts> layouts = compare_layouts(request);
  ASSERT_EQ(layouts.size(), 1u);
  ASSERT_EQ(layouts[0].reports.size(), 4u);
  EXPECT_EQ(layouts[0].reports[0].payload + layouts[0].reports[0].padding, 792244); // design section 3
  EXPECT_EQ(layouts[0].reports[3].payload, 8182);
  EXPECT_LE(layouts[0].reports[3].padding, 4);
}

// --- what is wrong with a request

TEST(Request, ErrorsNameWhatIsWrong) {
  const std::vector<std::pair<std::vector<std::string>, std::function<void(Request&)>>> mistakes{
      {{"units", "at least one"}, [](Request& r) { r.units.clear(); }},
      {{"unit 1", "name is empty"}, [](Request& r) { r.units[1].name = ""; }},
      {{"two modules", "layer 0"}, [](Request& r) { r.units[1].name = "layer 0"; }},
      {{"unit 0", "count >= 1", "found 0"}, [](Request& r) { r.units[0].count = 0; }},
      {{"unit 2", "'bias' exists twice"}, [](Request& r) { r.units[2].parameters[0].name = "bias"; }},
      {{"unit 0", "'weight'", "-3"},
       [](Request& r) {
         r.units[0].parameters[0].shape = {4, -3};
       }},
      {{"unit 0", "forward_s", "-1"}, [](Request& r) { r.units[0].forward_s = -1; }},
      {{"unit 0", "gradient_divisor", "0"}, [](Request& r) { r.units[0].gradient_divisor = 0; }},
      {{"unit 0", "first unit has no parent", "found 8"}, [](Request& r) { r.units[0].parent = 8; }},
      {{"unit 1", "parent", "found 1"}, [](Request& r) { r.units[1].parent = 1; }},
      {{"unit 1", "several modules"}, [](Request& r) { r.units[0].count = 2, r.units[1].parent = 0; }},
      {{"mesh", "axis"}, [](Request& r) { r.mesh.clear(); }},
      {{"mesh", "'b'", "found 0"}, [](Request& r) { r.mesh[1].size = 0; }},
      {{"mesh", "distinct", "'a'"}, [](Request& r) { r.mesh[1].name = "a"; }},
      {{"mesh", "64 bits"},
       [](Request& r) {
         r.mesh = {{"x", 1 << 30}, {"y", 1 << 30}, {"z", 1 << 30}};
       }},
      {{"ranks_per_node", "-1"}, [](Request& r) { r.ranks_per_node = -1; }},
      {{"nodes", "8", "found 3"},
       [](Request& r) {
         r.nodes = {0, 0, 1};
       }},
      {{"nodes", "found 9"}, [](Request& r) { r.nodes = {0, 0, 0, 0, 0, 0, 0, 9}; }},
      {{"rank", "found 8"}, [](Request& r) { r.rank = 8; }},
      {{"micro_batches", "found 0"}, [](Request& r) { r.micro_batches = 0; }},
      {{"gradient_slots", "found 0"}, [](Request& r) { r.config.gradient_slots = 0; }},
      {{"machine", "one link per axis"}, [](Request& r) { r.machine.axes.resize(1); }},
      {{"memory_bandwidth", "found 0"}, [](Request& r) { r.machine.memory_bandwidth = 0; }},
      {{"fuse_with_reduction"}, [](Request& r) { r.optimizer = Optimizer::none, r.fuse_with_reduction = true; }},
      {{"cache_bytes"}, [](Request& r) { r.cache_bytes = -1; }},
      {{"both passes"},
       [](Request& r) {
         r.forward = {{0, fsdp::Hook::pre_forward}};
       }},
      {{"hook 0", "module from 0 to 2", "found 7"},
       [](Request& r) {
         r.forward = {{7, fsdp::Hook::pre_forward}}, r.backward = {{0, fsdp::Hook::pre_backward}};
       }},
      {{"hook 0", "post_forward of module 0", "phase"},
       [](Request& r) {
         r.forward = {{0, fsdp::Hook::post_forward}}, r.backward = {{0, fsdp::Hook::pre_backward}};
       }},
      {{"not closed"},
       [](Request& r) {
         r.forward = {{0, fsdp::Hook::pre_forward}}, r.backward = {{0, fsdp::Hook::pre_backward}};
       }},
      {{"no forward pass to go back"},
       [](Request& r) {
         r.forward = {{0, fsdp::Hook::pre_forward}, {0, fsdp::Hook::post_forward}};
         r.backward = {{1, fsdp::Hook::pre_backward}};
       }},
  };
  for (const auto& [texts, make] : mistakes) {
    Request request = small();
    make(request);
    expect_error(Status::INVALID_ARGUMENT, texts, [&] { dry_run(request); });
  }
  Request request = small();
  request.units[0].parameters[0].dtype = DType::i32;
  expect_error(Status::TYPE_MISMATCH, {"unit 0", "'weight'", "i32"}, [&] { dry_run(request); });
  request = small();
  request.config.recipe = Recipe::zero_1;
  request.config.main_dtype = DType::f64;
  expect_error(Status::NOT_SUPPORTED, {"layer 0", "main type"}, [&] { dry_run(request); });
}

TEST(Request, ModulesOfUnits) {
  std::vector<Unit> units = digits(DType::f32);
  units[1].count = 2;
  units[2].parent = 0;
  const std::vector<Module> found = modules(units);
  ASSERT_EQ(found.size(), 4u);
  EXPECT_EQ(found[0].name, "layer 0");
  EXPECT_EQ(found[2].name, "layer 1.1");
  EXPECT_EQ(found[3].name, "layer 0.layer 2");
  EXPECT_EQ(found[3].parent, 0);
}

// --- ranks and nodes

TEST(Ranks, NodesByNumberAreThoseInARow) {
  Request request = small();
  request.backend = Backend::node;
  for (const Recipe recipe : all_recipes()) {
    request.config.recipe = recipe;
    request.ranks_per_node = 3;
    request.nodes.clear();
    const Report rows = dry_run(request);
    request.nodes = {0, 0, 0, 1, 1, 1, 2, 2};
    const Report numbers = dry_run(request);
    EXPECT_EQ(rows.bytes, numbers.bytes);
    EXPECT_EQ(rows.node_bytes, numbers.node_bytes);
    EXPECT_EQ(rows.calls, numbers.calls);
  }
}

TEST(Ranks, TheRankThatHoldsMost) {
  for (const int on_a_node : {2, 3, 5})
    for (const Recipe recipe : all_recipes()) {
      Request request = small();
      request.backend = Backend::node;
      request.ranks_per_node = on_a_node;
      request.config.recipe = recipe;
      request.config.gradient_slot_bytes = 100000;
      const std::int64_t found = dry_run(request).bytes.peak;
      for (int rank = 0; rank < 8; ++rank) {
        request.rank = rank;
        EXPECT_LE(dry_run(request).bytes.peak, found + 8 * 3) << rank; // even parts of 8 regions differ by a byte each
      }
    }
}

// --- a large model

Request deepseek(const std::vector<Axis>& mesh, Backend backend) {
  std::ifstream in(OSTRAKA_TEST_DATA "/models/deepseek-v3.json");
  const nlohmann::json model = nlohmann::json::parse(in);
  Request request;
  request.mesh = mesh;
  request.backend = backend;
  request.ranks_per_node = 8;
  for (const auto& json : model.at("units")) {
    Unit unit;
    unit.name = std::to_string(request.units.size()) + " " + std::string(json.at("unit"));
    unit.count = json.at("count");
    for (const auto& tensor : json.at("tensors"))
      unit.parameters.push_back({tensor.at(0), tensor.at(1), DType::bf16, true});
    request.units.push_back(std::move(unit));
  }
  return request;
}

TEST(LargeModel, DeepSeekOn16384Ranks) {
  const Request request = deepseek({{"node", 2048}, {"gpu", 8}}, Backend::nccl);
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<Outcome> outcomes = compare(request, all_recipes());
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  std::printf("LargeModel: all recipes in %.3f s\n", seconds.count());
  const double formulas[] = {18,       6 + 12.0 / 16384,       2 + 16.0 / 16384,          18.0 / 16384,
                             18.0 / 8, 6.0 / 8 + 12.0 / 16384, 2 + 4.0 / 8 + 12.0 / 16384};
  for (std::size_t k = 0; k < outcomes.size(); ++k) {
    ASSERT_TRUE(outcomes[k].report) << outcomes[k].refused;
    const Report& report = *outcomes[k].report;
    EXPECT_EQ(report.elements, 671026404352);
    EXPECT_NEAR(report.formula_bytes_per_parameter, formulas[k], 1e-12 * formulas[k]);
    EXPECT_NEAR(report.bytes_per_parameter, formulas[k], 1e-2 * formulas[k]);
    EXPECT_EQ(report.axes[0].backend, "nccl");
  }
}

TEST(LargeModel, DeepSeekWithSharedMemory) {
  const Request request = deepseek({{"node", 2048}, {"core", 8}}, Backend::node);
  for (const Outcome& outcome : compare(request, all_recipes())) {
    ASSERT_TRUE(outcome.report) << outcome.refused;
    EXPECT_EQ(outcome.report->node_ranks, 8);
    EXPECT_EQ(outcome.report->axes[1].sent, 0);
    EXPECT_EQ(outcome.report->axes[1].backend, "node");
  }
}

} // namespace
} // namespace ostraka::plan::test
