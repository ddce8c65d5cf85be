// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/fsdp/group_plan.hpp>
#include <ostraka/layout/builders.hpp>

#include <algorithm>
#include <limits>

namespace ostraka::fsdp {

namespace {

DType wide(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }

// Tensors at 64 bytes and segments at 16, in elements of the smallest type that this layout is used with.
layout::Alignment alignment_of(const WeightTypes& types) {
  const std::int64_t smallest = std::min({size_of(types.storage), size_of(types.compute), size_of(types.main)});
  return {64 / smallest, 16 / smallest};
}

bool is_partial(const layout::Placements& gradient) {
  return std::all_of(gradient.begin(), gradient.end(), [](const auto& placement) { return placement.is_partial(); });
}

bool is_replicated(const layout::Placements& parameter) {
  return std::all_of(parameter.begin(), parameter.end(), [](const auto& axis) { return axis.is_replicate(); });
}

} // namespace

RecipePlacements placements_where(bool rests_whole, RecipePlacements placements) {
  if (rests_whole)
    placements.optimizer = layout::Placements(placements.optimizer.size(), layout::shard());
  return placements;
}

bool shares_gathers(const layout::Placements& parameter) {
  return std::count_if(parameter.begin(), parameter.end(), [](const auto& axis) { return axis.is_shard(); }) == 1;
}

std::int64_t most_slot_bytes(const ContextConfig& config, bool is_one_node, int node_size, std::int64_t cache_bytes) {
  if (!config.gradient_slot_bytes && !is_one_node)
    return std::numeric_limits<std::int64_t>::max();
  return config.gradient_slot_bytes.value_or(cache_bytes) / node_size;
}

std::vector<std::vector<ParameterSpec>> grouped(const std::vector<ParameterSpec>& specs) {
  std::vector<std::vector<ParameterSpec>> groups;
  for (const ParameterSpec& spec : specs) {
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.front().dtype == spec.dtype && group.front().trainable == spec.trainable;
    });
    if (same == groups.end())
      same = groups.insert(groups.end(), std::vector<ParameterSpec>{});
    same->push_back(spec);
  }
  return groups;
}

Precision precision_of(const Precision& own, const Precision& other) {
  const auto either = [](std::optional<DType> first, std::optional<DType> second) { return first ? first : second; };
  return {either(own.main_dtype, other.main_dtype), either(own.compute_dtype, other.compute_dtype),
          either(own.reduction_dtype, other.reduction_dtype)};
}

std::int64_t GroupPlan::slot_bytes() const {
  return is_trainable && !has_persistent_partial
             ? multiply(layout->size(), size_of(gradient_dtype), "gradient slot: bytes")
             : 0;
}

GroupPlan plan_group(const std::vector<ParameterSpec>& specs, const Precision& precision,
                     const RecipePlacements& placements, int segments, const std::string& module) {
  const DType storage = specs.front().dtype;
  GroupPlan plan{};
  plan.types = {storage, precision.compute_dtype.value_or(wide(storage)), precision.main_dtype.value_or(wide(storage))};
  plan.gradient_dtype = precision.reduction_dtype.value_or(wide(storage));
  plan.is_trainable = specs.front().trainable;
  plan.has_persistent_partial = is_partial(placements.gradient);
  plan.is_replicated = is_replicated(placements.parameter);
  plan.is_reduced_at_the_end = placements.gradient != placements.optimizer;
  expect(
      !plan.has_persistent_partial || plan.types.main == plan.gradient_dtype, Status::NOT_SUPPORTED, "module '", module,
      "': micro-batches add up in the main gradient itself where it is Partial on all axes (no_shard, zero_1), so the "
      "main type must be ",
      name(plan.gradient_dtype), ", found ", name(plan.types.main));
  std::vector<layout::Shape> shapes;
  for (const ParameterSpec& spec : specs)
    shapes.push_back(spec.shape);
  plan.layout =
      std::make_shared<layout::GlobalLayout>(layout::build_flat(std::move(shapes), segments, alignment_of(plan.types)));
  return plan;
}

} // namespace ostraka::fsdp
