// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/fsdp/group_plan.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/plan/compare.hpp>

#include <algorithm>

namespace ostraka::plan {

namespace {

constexpr int most_modules = 1 << 20;

bool is_cheaper(const Report& a, const Report& b) {
  return a.step_s != b.step_s ? a.step_s < b.step_s : a.bytes.peak < b.bytes.peak;
}

UnitLayouts layouts_of(const std::vector<fsdp::ParameterSpec>& specs, int unit, int group, int ranks) {
  std::vector<layout::Shape> shapes;
  for (const fsdp::ParameterSpec& spec : specs)
    shapes.push_back(spec.shape);
  UnitLayouts result{unit, group, {}, {}};
  for (const auto policy :
       {layout::Policy::reference, layout::Policy::planned, layout::Policy::ragged, layout::Policy::flat}) {
    const layout::Atoms atoms = policy == layout::Policy::flat ? layout::Atoms{} : layout::Atoms{layout::row_atom()};
    try {
      result.reports.push_back(layout::report(layout::build(policy, shapes, ranks, {}, atoms)));
      result.refused.emplace_back();
    } catch (const Error& error) {
      result.reports.push_back({policy, "", 0, 0, ranks, 0, 0, 0, {}});
      result.refused.emplace_back(error.what());
    }
  }
  return result;
}

} // namespace

std::vector<fsdp::Recipe> all_recipes() {
  std::vector<fsdp::Recipe> recipes;
  for (auto number = static_cast<std::int32_t>(fsdp::Recipe::no_shard);
       number <= static_cast<std::int32_t>(fsdp::Recipe::zero_1_zero_2); ++number)
    recipes.push_back(static_cast<fsdp::Recipe>(number));
  return recipes;
}

std::vector<Outcome> compare(const Request& request, std::span<const fsdp::Recipe> recipes) {
  Request with = request;
  with.config.placements.reset();
  with.config.recipe = fsdp::Recipe::zero_3; // which every mesh has
  validate(with);
  std::vector<Outcome> outcomes;
  for (const fsdp::Recipe recipe : recipes) {
    outcomes.push_back({recipe, std::nullopt, ""});
    with.config.recipe = recipe;
    try {
      outcomes.back().report = dry_run(with);
    } catch (const Error& error) {
      outcomes.back().refused = error.what();
    }
  }
  return outcomes;
}

bool fits(const Report& report, const Limit& limit) {
  return (!limit.rank_bytes || report.bytes.peak <= *limit.rank_bytes) &&
         (!limit.node_bytes || report.node_bytes.peak <= *limit.node_bytes);
}

std::optional<int> cheapest(std::span<const Outcome> outcomes, const Limit& limit) {
  std::optional<int> best;
  for (std::size_t k = 0; k < outcomes.size(); ++k) {
    const std::optional<Report>& report = outcomes[k].report;
    if (!report || !fits(*report, limit))
      continue;
    if (!best || is_cheaper(*report, *outcomes[static_cast<std::size_t>(*best)].report))
      best = static_cast<int>(k);
  }
  return best;
}

std::optional<Largest> largest(const Request& request, int unit, const Limit& limit) {
  expect(unit >= 0 && unit < static_cast<int>(request.units.size()), Status::INVALID_ARGUMENT,
         "largest: expected a unit from 0 to ", static_cast<int>(request.units.size()) - 1, ", found ", unit);
  expect(limit.rank_bytes || limit.node_bytes, Status::INVALID_ARGUMENT,
         "largest: expected the bytes of a rank or of a node, found no limit");
  for (const Unit& other : request.units)
    expect(other.parent != unit, Status::INVALID_ARGUMENT, "largest: unit ", unit, " is around unit '", other.name,
           "', so it cannot be several modules; choose another one");
  expect(request.forward.empty(), Status::INVALID_ARGUMENT,
         "largest: hooks are given, which name modules by number; leave them empty");
  Request with = request;
  std::optional<Largest> best;
  const auto holds = [&](int count) {
    with.units[static_cast<std::size_t>(unit)].count = count;
    Report report = dry_run(with);
    if (!fits(report, limit))
      return false;
    best = {count, std::move(report)};
    return true;
  };
  int fitting = 0, beyond = 1;
  while (beyond <= most_modules && holds(beyond)) {
    fitting = beyond;
    beyond *= 2;
  }
  while (beyond - fitting > 1) {
    const int middle = fitting + (beyond - fitting) / 2;
    (holds(middle) ? fitting : beyond) = middle;
  }
  return best;
}

std::vector<UnitLayouts> compare_layouts(const Request& request) {
  validate(request);
  std::vector<UnitLayouts> layouts;
  for (std::size_t unit = 0; unit < request.units.size(); ++unit) {
    int group = 0;
    for (const auto& specs : fsdp::grouped(request.units[unit].parameters))
      layouts.push_back(layouts_of(specs, static_cast<int>(unit), group++, static_cast<int>(request.ranks())));
  }
  return layouts;
}

} // namespace ostraka::plan
