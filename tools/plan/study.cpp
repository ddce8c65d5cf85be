// SPDX-License-Identifier: Apache-2.0
#include "study.hpp"

#include "progress.hpp"
#include "quantity.hpp"
#include <ostraka/base/error.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <utility>

namespace ostraka::tool {
namespace {

/// Every recipe alone, so that the bar moves.
void run_recipes(const Study& study, const std::vector<fsdp::Recipe>& recipes, Point& point, Progress& progress) {
  for (const fsdp::Recipe recipe : recipes) {
    plan::Request request = point.request;
    request.config.placements.reset();
    request.config.recipe = recipe;
    const std::array one{recipe};
    Result result{name(recipe), plan::compare(request, one).front(), false, false, {}};
    if (study.options.largest && result.outcome.report)
      result.largest = plan::largest(request, study.largest_unit, study.limit);
    point.results.push_back(std::move(result));
    progress.add(1);
  }
}

void run_placements(const Study& study, Point& point, Progress& progress) {
  if (!point.request.config.placements)
    return;
  Result result{"by_hand", {fsdp::Recipe::zero_3, plan::dry_run(point.request), ""}, false, false, {}};
  if (study.options.largest)
    result.largest = plan::largest(point.request, study.largest_unit, study.limit);
  point.results.push_back(std::move(result));
  progress.add(1);
}

void judge(const plan::Limit& limit, Point& point) {
  std::vector<plan::Outcome> outcomes;
  for (Result& result : point.results) {
    result.fits = result.outcome.report && plan::fits(result.report(), limit);
    outcomes.push_back(result.outcome);
  }
  if (const std::optional<int> cheapest = plan::cheapest(outcomes, limit))
    point.results[static_cast<std::size_t>(*cheapest)].is_cheapest = true;
}

void run(const Study& study, const std::vector<fsdp::Recipe>& recipes, Point& point, Progress& progress) {
  run_placements(study, point, progress);
  run_recipes(study, recipes, point, progress);
  judge(study.limit, point);
  if (study.options.layouts)
    point.layouts = plan::compare_layouts(point.request);
}

std::vector<fsdp::Recipe> recipes_of(const Options& options) {
  if (options.recipes.empty())
    return options.placements.empty() ? plan::all_recipes() : std::vector<fsdp::Recipe>{};
  return parse_recipes(options.recipes);
}

} // namespace

const Result* Point::shown() const {
  const auto find = [&](auto&& condition) -> const Result* {
    const auto found = std::find_if(results.begin(), results.end(), condition);
    return found == results.end() ? nullptr : &*found;
  };
  const Result* cheapest = find([](const Result& result) { return result.is_cheapest; });
  return cheapest ? cheapest : find([](const Result& result) { return result.outcome.report.has_value(); });
}

int Point::nodes() const {
  const std::int64_t per_node = request.ranks_per_node, ranks = request.ranks();
  return per_node == 0 ? 1 : static_cast<int>((ranks + per_node - 1) / per_node);
}

bool Study::fits_anywhere() const {
  return std::any_of(points.begin(), points.end(), [](const Point& point) {
    return std::any_of(point.results.begin(), point.results.end(), [](const Result& result) { return result.fits; });
  });
}

void Study::expect_results() const {
  std::set<std::string> reasons;
  for (const Point& point : points)
    for (const Result& result : point.results) {
      if (result.outcome.report)
        return;
      reasons.insert(result.recipe + ": " + result.outcome.refused);
    }
  std::string text;
  for (const std::string& reason : reasons)
    text += "\n  " + reason;
  fail(Status::INVALID_ARGUMENT, "expected a recipe that this mesh allows, found none:", text);
}

Study make_study(const Options& options, const Warn& warn) {
  Study study{
      options, read_model(options.model, parse_dtype(options.storage, "--storage: "), warn), limit_of(options), 0, {}};
  expect(!options.largest || study.has_limit(), Status::INVALID_ARGUMENT,
         "--largest: expected --memory or --node-memory");
  study.largest_unit = largest_unit_of(options, study.model);
  const std::vector<fsdp::Recipe> recipes = recipes_of(options);
  for (plan::Request& request : requests_of(options, study.model, warn))
    study.points.push_back({std::move(request), {}, {}});
  const std::size_t plans = study.points.size() * (recipes.size() + (options.placements.empty() ? 0 : 1));
  Progress progress("plan", static_cast<std::int64_t>(plans), "plans");
  for (Point& point : study.points)
    run(study, recipes, point, progress);
  return study;
}

std::string mesh_text(const plan::Request& request) {
  std::string text;
  for (const plan::Axis& axis : request.mesh)
    text += (text.empty() ? "" : " x ") + axis.name + "=" + std::to_string(axis.size);
  return text;
}

std::string types_text(const Study& study) {
  std::set<std::string> storage;
  for (const plan::Unit& unit : study.model.units)
    for (const fsdp::ParameterSpec& parameter : unit.parameters)
      storage.insert(name(parameter.dtype));
  std::string text;
  for (const std::string& dtype : storage)
    text += (text.empty() ? "" : " and ") + dtype;
  const bool is_f64 = storage == std::set<std::string>{"f64"};
  const auto type = [&](const std::optional<std::string>& chosen) { return chosen.value_or(is_f64 ? "f64" : "f32"); };
  return "weights " + text + ", main " + type(study.options.main) + ", compute " + type(study.options.compute) +
         ", reduction " + type(study.options.reduction);
}

std::string point_text(const Point& point) {
  const std::int64_t ranks = point.request.ranks();
  return std::to_string(ranks) + (ranks == 1 ? " rank on " : " ranks on ") + std::to_string(point.nodes()) +
         (point.nodes() == 1 ? " node" : " nodes") + " (" + mesh_text(point.request) + "), " +
         name(point.request.backend);
}

std::string model_text(const Model& model) {
  return (model.name.empty() ? model.file : model.name) + ", " + count_text(model.parameters) + " parameters in " +
         std::to_string(model.modules) + (model.modules == 1 ? " module" : " modules");
}

std::string limit_text(const plan::Limit& limit) {
  std::string text;
  if (limit.rank_bytes)
    text = bytes_text(*limit.rank_bytes) + " per rank";
  if (limit.node_bytes)
    text += (text.empty() ? "" : ", ") + bytes_text(*limit.node_bytes) + " per node";
  return text.empty() ? "none" : text;
}

} // namespace ostraka::tool
