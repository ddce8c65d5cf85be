// SPDX-License-Identifier: Apache-2.0
// The dry runs that a command line asks for, and what follows from them.
#pragma once

#include "options.hpp"
#include <ostraka/plan/compare.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::tool {

/// Of one recipe, or of placements by hand, on one number of ranks.
struct Result {
  std::string recipe; ///< "by_hand" for placements
  plan::Outcome outcome;
  bool fits = false, is_cheapest = false;
  std::optional<plan::Largest> largest; ///< with --largest; none: not even one module fits

  const plan::Report& report() const { return *outcome.report; }
};

/// One number of ranks.
struct Point {
  plan::Request request;
  std::vector<Result> results;
  std::vector<plan::UnitLayouts> layouts; ///< with --layouts

  /// The result whose time line is shown: the cheapest, else the first that has one; null where all are refused.
  const Result* shown() const;
  int nodes() const;
};

struct Study {
  Options options;
  Model model;
  plan::Limit limit;
  int largest_unit = 0;
  std::vector<Point> points;

  bool has_limit() const { return limit.rank_bytes || limit.node_bytes; }
  bool fits_anywhere() const;
  /// Throws INVALID_ARGUMENT with all reasons where every recipe is refused everywhere.
  void expect_results() const;
};

/// Reads the files and makes the dry runs; a bar on a terminal where that takes long.
Study make_study(const Options& options, const Warn& warn);

/// "node=8 x gpu=8"
std::string mesh_text(const plan::Request& request);
/// "weights bf16, main f32, compute f32, reduction f32"
std::string types_text(const Study& study);
/// "64 ranks on 8 nodes (node=8 x gpu=8), nccl"
std::string point_text(const Point& point);
/// "DeepSeek-V3, 671 G parameters in 63 modules"
std::string model_text(const Model& model);
/// "80 GiB per rank", "none"
std::string limit_text(const plan::Limit& limit);

} // namespace ostraka::tool
