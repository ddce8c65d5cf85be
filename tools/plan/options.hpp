// SPDX-License-Identifier: Apache-2.0
// The command line as it was written, and what it asks for.
#pragma once

#include "model_file.hpp"
#include <ostraka/plan/compare.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace ostraka::tool {

/// Exit statuses: 1 where nothing fits, 2 where the question cannot be answered.
inline constexpr int success = 0, nothing_fits = 1, trouble = 2;

struct Options {
  std::string model;
  std::string mesh, ranks;
  std::optional<std::string> ranks_per_node, backend;
  std::vector<std::string> recipes;
  std::string placements;
  std::string storage = "f32";
  std::optional<std::string> main, compute, reduction;
  std::string optimizer = "adamw";
  bool fuse = false, unified = false;
  int micro_batches = 1, slots = 2;
  std::optional<std::int64_t> prefetch;
  std::optional<std::string> slot_bytes, cache, memory, node_memory;
  std::string machine;
  std::int64_t samples = 1;
  bool layouts = false, largest = false, json = false, force = false;
  std::string largest_unit;
  std::string svg, html;
};

/// "zero_3" ...
const char* name(fsdp::Recipe recipe);

/// A mesh whose size is known but for at most one axis.
struct MeshText {
  std::vector<plan::Axis> axes;
  int varying = 0;      ///< the axis that other numbers of ranks change
  bool is_open = false; ///< its size was written "*"
};

/// "node=8,gpu=8", "node=*,gpu=8". Throws INVALID_ARGUMENT.
MeshText parse_mesh(const std::string& text);

/// "64", "8,16,24", "8..1024" (doubling). Throws INVALID_ARGUMENT.
std::vector<std::int64_t> parse_ranks(const std::string& text);

/// "parameter=RS,gradient=PS,optimizer=SS": R(eplicate), S(hard), P(artial), a letter per axis.
fsdp::RecipePlacements parse_placements(const std::string& text, std::size_t dims);

/// Recipes by their names; "all" is every one.
std::vector<fsdp::Recipe> parse_recipes(const std::vector<std::string>& names);

/// One request per number of ranks, with the recipe still open; placements are those by hand, if any. Throws
/// INVALID_ARGUMENT.
std::vector<plan::Request> requests_of(const Options& options, const Model& model, const Warn& warn);

plan::Limit limit_of(const Options& options);

/// The unit whose count --largest changes: by its name, else the one with most elements. Throws INVALID_ARGUMENT.
int largest_unit_of(const Options& options, const Model& model);

} // namespace ostraka::tool
