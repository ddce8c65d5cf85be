// SPDX-License-Identifier: Apache-2.0
// Dry runs side by side: which recipe fits, which one is cheapest, how large a model may be.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/layout/report.hpp>
#include <ostraka/plan/dry_run.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ostraka::plan {

/// Of one recipe: a report, or why there is none.
struct Outcome {
  fsdp::Recipe recipe;
  std::optional<Report> report;
  std::string refused;
};

/// All recipes, in the order of their numbers.
OSTRAKA_API std::vector<fsdp::Recipe> all_recipes();

/// `request` with each of `recipes` instead of its own recipe or placements. Throws what all recipes would: only what a
/// recipe itself refuses (too few axes) is an outcome.
OSTRAKA_API std::vector<Outcome> compare(const Request& request, std::span<const fsdp::Recipe> recipes);

/// Bytes that a rank, or a node, may hold at its peak.
struct Limit {
  std::optional<std::int64_t> rank_bytes;
  std::optional<std::int64_t> node_bytes;
};
OSTRAKA_API bool fits(const Report& report, const Limit& limit);

/// The index of the outcome that fits and takes least time for a step; of equal ones that with the smallest peak on a
/// rank, then the first. None fits: nothing.
OSTRAKA_API std::optional<int> cheapest(std::span<const Outcome> outcomes, const Limit& limit);

/// The largest count of unit `unit` with which `request` fits; counts of all other units stay. None when not even 1
/// fits. Throws INVALID_ARGUMENT for a unit that does not exist or is the parent of another, and without a limit.
struct Largest {
  int count;
  Report report;
};
OSTRAKA_API std::optional<Largest> largest(const Request& request, int unit, const Limit& limit);

/// What each policy would make of the groups of a unit. A context uses `planned` with element atoms (`flat`).
struct UnitLayouts {
  int unit;
  int group;                                 ///< of its modules
  std::vector<layout::LayoutReport> reports; ///< reference, planned (with rows), ragged, flat
  std::vector<std::string> refused;          ///< [report] why there is none, else empty
};
OSTRAKA_API std::vector<UnitLayouts> compare_layouts(const Request& request);

} // namespace ostraka::plan
