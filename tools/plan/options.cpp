// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "machine_file.hpp"
#include "quantity.hpp"
#include "text.hpp"
#include <ostraka/base/error.hpp>

#include <algorithm>
#include <array>
#include <cctype>

namespace ostraka::tool {
namespace {

constexpr std::int64_t most_ranks = std::int64_t{1} << 20;
constexpr std::size_t most_points = 64, most_axes = 4;

constexpr std::array recipe_names{"no_shard", "zero_1", "zero_2", "zero_3", "hsdp", "hfsdp", "zero_1_zero_2"};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts{""};
  for (const char c : text)
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  return parts;
}

/// A word of letters, digits and underscores.
bool is_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  });
}

std::int64_t product_but(const MeshText& mesh, int axis) {
  std::int64_t product = 1;
  for (std::size_t a = 0; a < mesh.axes.size(); ++a)
    if (static_cast<int>(a) != axis && (product *= mesh.axes[a].size) > most_ranks)
      fail(Status::INVALID_ARGUMENT, "--mesh: expected at most ", most_ranks, " ranks, found more");
  return product;
}

std::vector<std::vector<plan::Axis>> meshes_of(const Options& options) {
  expect(!options.mesh.empty() || !options.ranks.empty(), Status::INVALID_ARGUMENT,
         "expected --mesh NAME=SIZE,... or --ranks N, found neither");
  MeshText mesh = options.mesh.empty() ? MeshText{{{"rank", 1}}, 0, true} : parse_mesh(options.mesh);
  const std::int64_t others = product_but(mesh, mesh.varying);
  if (options.ranks.empty()) {
    expect(!mesh.is_open, Status::INVALID_ARGUMENT, "--mesh ", options.mesh, ": * needs --ranks");
    product_but(mesh, -1);
    return {mesh.axes};
  }
  std::vector<std::vector<plan::Axis>> meshes;
  for (const std::int64_t ranks : parse_ranks(options.ranks)) {
    expect(ranks % others == 0, Status::INVALID_ARGUMENT, "--ranks: expected multiples of ", others,
           ", the ranks of the other axes of --mesh ", options.mesh, ", found ", ranks);
    mesh.axes[static_cast<std::size_t>(mesh.varying)].size = static_cast<int>(ranks / others);
    meshes.push_back(mesh.axes);
  }
  return meshes;
}

/// As told; else the axes behind one that is called "node"; else all.
int ranks_per_node_of(const Options& options, const std::vector<plan::Axis>& axes) {
  if (options.ranks_per_node)
    return static_cast<int>(parse_whole(*options.ranks_per_node, 1, most_ranks, "--ranks-per-node"));
  int ranks = 1;
  for (std::size_t a = axes.size(); a-- > 0; ranks *= axes[a].size)
    if (axes[a].name == "node")
      return ranks;
  return 0;
}

plan::Backend backend_of(const Options& options, const std::vector<plan::Axis>& axes) {
  if (!options.backend)
    return std::any_of(axes.begin(), axes.end(), [](const auto& axis) { return axis.name == "gpu"; })
               ? plan::Backend::nccl
               : plan::Backend::node;
  for (const auto backend : {plan::Backend::mpi, plan::Backend::node, plan::Backend::nccl})
    if (*options.backend == name(backend))
      return backend;
  fail(Status::INVALID_ARGUMENT, "--backend: expected node, mpi or nccl, found '", printable(*options.backend), "'");
}

plan::Optimizer optimizer_of(const Options& options) {
  std::string known;
  for (const auto optimizer :
       {plan::Optimizer::none, plan::Optimizer::sgd, plan::Optimizer::sgd_momentum, plan::Optimizer::adamw}) {
    if (options.optimizer == name(optimizer))
      return optimizer;
    known += (known.empty() ? "" : ", ") + std::string(name(optimizer));
  }
  fail(Status::INVALID_ARGUMENT, "--optimizer: expected one of ", known, ", found '", printable(options.optimizer),
       "'");
}

std::optional<DType> dtype_of(const std::optional<std::string>& text, const char* option) {
  if (!text)
    return std::nullopt;
  return parse_dtype(*text, std::string(option) + ": ");
}

std::optional<std::int64_t> bytes_of(const std::optional<std::string>& text, const char* option) {
  if (!text)
    return std::nullopt;
  return parse_bytes(*text, option);
}

fsdp::ContextConfig config_of(const Options& options, std::size_t dims) {
  fsdp::ContextConfig config;
  config.main_dtype = dtype_of(options.main, "--main");
  config.compute_dtype = dtype_of(options.compute, "--compute");
  config.reduction_dtype = dtype_of(options.reduction, "--reduction");
  config.gradient_slots = options.slots;
  config.gradient_slot_bytes = bytes_of(options.slot_bytes, "--slot-bytes");
  config.prefetch = options.prefetch;
  config.unified_stream = options.unified;
  if (!options.placements.empty())
    config.placements = parse_placements(options.placements, dims);
  return config;
}

layout::Placements letters(const std::string& text, std::size_t dims) {
  expect(text.size() == dims, Status::INVALID_ARGUMENT, "--placements: expected ", dims,
         " letters, one per axis, found '", printable(text), "'");
  layout::Placements placements;
  for (const char c : text) {
    expect(c == 'R' || c == 'S' || c == 'P', Status::INVALID_ARGUMENT,
           "--placements: expected letters R, S and P, found '", printable(text), "'");
    placements.push_back(c == 'R'   ? layout::replicate()
                         : c == 'S' ? layout::shard()
                                    : layout::partial(layout::ReduceOp::mean));
  }
  return placements;
}

} // namespace

const char* name(fsdp::Recipe recipe) { return recipe_names.at(static_cast<std::size_t>(recipe)); }

MeshText parse_mesh(const std::string& text) {
  MeshText mesh;
  for (const std::string& part : split(text, ',')) {
    const std::size_t at = part.find('=');
    const std::string axis = part.substr(0, at);
    expect(at != std::string::npos && is_name(axis), Status::INVALID_ARGUMENT,
           "--mesh: expected NAME=SIZE,NAME=SIZE,..., found '", printable(text), "'");
    const std::string size = part.substr(at + 1), what = "--mesh: size of axis '" + axis + "'";
    for (const plan::Axis& other : mesh.axes)
      expect(other.name != axis, Status::INVALID_ARGUMENT, "--mesh: expected names that differ, found '", axis,
             "' twice");
    if (size == "*") {
      expect(!mesh.is_open, Status::INVALID_ARGUMENT, "--mesh: expected one axis of size *, found two");
      mesh.varying = static_cast<int>(mesh.axes.size());
      mesh.is_open = true;
    }
    mesh.axes.push_back({axis, size == "*" ? 1 : static_cast<int>(parse_whole(size, 1, most_ranks, what))});
  }
  expect(mesh.axes.size() <= most_axes, Status::INVALID_ARGUMENT, "--mesh: expected at most ", most_axes,
         " axes, found ", mesh.axes.size());
  return mesh;
}

std::vector<std::int64_t> parse_ranks(const std::string& text) {
  std::vector<std::int64_t> numbers;
  if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
    const std::int64_t first = parse_whole(text.substr(0, dots), 1, most_ranks, "--ranks");
    const std::int64_t last = parse_whole(text.substr(dots + 2), first, most_ranks, "--ranks");
    for (std::int64_t ranks = first; ranks <= last; ranks *= 2)
      numbers.push_back(ranks);
    return numbers;
  }
  for (const std::string& part : split(text, ','))
    numbers.push_back(parse_whole(part, numbers.empty() ? 1 : numbers.back() + 1, most_ranks, "--ranks"));
  expect(numbers.size() <= most_points, Status::INVALID_ARGUMENT, "--ranks: expected at most ", most_points,
         " numbers, found ", numbers.size());
  return numbers;
}

fsdp::RecipePlacements parse_placements(const std::string& text, std::size_t dims) {
  fsdp::RecipePlacements placements;
  std::array<std::pair<const char*, layout::Placements*>, 3> members{
      {{"parameter", &placements.parameter}, {"gradient", &placements.gradient}, {"optimizer", &placements.optimizer}}};
  for (const std::string& part : split(text, ',')) {
    const std::size_t at = part.find('=');
    const auto member = std::find_if(members.begin(), members.end(),
                                     [&](const auto& candidate) { return part.substr(0, at) == candidate.first; });
    expect(at != std::string::npos && member != members.end() && member->second->empty(), Status::INVALID_ARGUMENT,
           "--placements: expected parameter=...,gradient=...,optimizer=..., found '", printable(text), "'");
    *member->second = letters(part.substr(at + 1), dims);
  }
  for (const auto& [key, list] : members)
    expect(!list->empty(), Status::INVALID_ARGUMENT, "--placements: expected ", key, "=LETTERS, found none");
  return placements;
}

std::vector<fsdp::Recipe> parse_recipes(const std::vector<std::string>& names) {
  std::vector<fsdp::Recipe> recipes;
  for (const std::string& list : names)
    for (const std::string& text : split(list, ',')) {
      if (text == "all")
        return plan::all_recipes();
      const auto found = std::find(recipe_names.begin(), recipe_names.end(), text);
      expect(found != recipe_names.end(), Status::INVALID_ARGUMENT,
             "--recipe: expected all, no_shard, zero_1, zero_2, zero_3, hsdp, hfsdp or zero_1_zero_2, found '",
             printable(text), "'");
      const auto recipe = static_cast<fsdp::Recipe>(found - recipe_names.begin());
      if (std::find(recipes.begin(), recipes.end(), recipe) == recipes.end())
        recipes.push_back(recipe);
    }
  return recipes;
}

std::vector<plan::Request> requests_of(const Options& options, const Model& model, const Warn& warn) {
  std::vector<plan::Request> requests;
  for (std::vector<plan::Axis>& axes : meshes_of(options)) {
    plan::Request request;
    request.units = model.units;
    request.config = config_of(options, axes.size());
    request.ranks_per_node = ranks_per_node_of(options, axes);
    request.backend = backend_of(options, axes);
    request.mesh = std::move(axes);
    request.optimizer = optimizer_of(options);
    request.fuse_with_reduction = options.fuse;
    request.micro_batches = options.micro_batches;
    request.cache_bytes = bytes_of(options.cache, "--cache");
    if (!options.machine.empty())
      read_machine(options.machine, model, options.samples, request,
                   requests.empty() ? warn : Warn([](const auto&) {}));
    requests.push_back(std::move(request));
  }
  return requests;
}

plan::Limit limit_of(const Options& options) {
  return {bytes_of(options.memory, "--memory"), bytes_of(options.node_memory, "--node-memory")};
}

int largest_unit_of(const Options& options, const Model& model) {
  int most = -1;
  std::int64_t most_elements = -1;
  for (std::size_t u = 0; u < model.units.size(); ++u) {
    const plan::Unit& unit = model.units[u];
    const bool is_parent = std::any_of(model.units.begin(), model.units.end(),
                                       [&](const auto& other) { return other.parent == static_cast<int>(u); });
    if (unit.name == options.largest_unit) {
      expect(!is_parent, Status::INVALID_ARGUMENT, "--largest-unit: unit '", unit.name,
             "' is around others and cannot be repeated");
      return static_cast<int>(u);
    }
    if (const std::int64_t elements = elements_of(unit) * unit.count; !is_parent && elements > most_elements) {
      most = static_cast<int>(u);
      most_elements = elements;
    }
  }
  expect(options.largest_unit.empty(), Status::INVALID_ARGUMENT, "--largest-unit: ", model.file, " has no unit '",
         printable(options.largest_unit), "'");
  return most;
}

} // namespace ostraka::tool
