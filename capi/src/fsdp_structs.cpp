// SPDX-License-Identifier: Apache-2.0
#include "fsdp_structs.hpp"

#include <utility>

using namespace ostraka;
using namespace ostraka::capi;

const ostraka_fsdp_config_t ostraka::capi::default_fsdp_config{sizeof(ostraka_fsdp_config_t),
                                                               OSTRAKA_FSDP_CONFIG_VERSION,
                                                               OSTRAKA_ZERO_3,
                                                               OSTRAKA_MEAN,
                                                               2,
                                                               0,
                                                               -1,
                                                               -1,
                                                               0,
                                                               nullptr,
                                                               nullptr,
                                                               nullptr,
                                                               -1,
                                                               0,
                                                               -1,
                                                               -1};

namespace {

std::optional<fsdp::RecipePlacements> to_recipe_placements(const ostraka_fsdp_config_t& config, int dims) {
  const bool any = config.parameter_placements != nullptr || config.gradient_placements != nullptr ||
                   config.optimizer_placements != nullptr;
  if (!any)
    return std::nullopt;
  for (const auto& [list, name] : {std::pair{config.parameter_placements, "parameter_placements"},
                                   {config.gradient_placements, "gradient_placements"},
                                   {config.optimizer_placements, "optimizer_placements"}})
    expect(list != nullptr, Status::INVALID_ARGUMENT, "'", name, "' is null; expected all three lists, or none");
  return fsdp::RecipePlacements{to_placements(config.parameter_placements, dims),
                                to_placements(config.gradient_placements, dims),
                                to_placements(config.optimizer_placements, dims)};
}

} // namespace

fsdp::ContextConfig ostraka::capi::to_config(const ostraka_fsdp_config_t* given, int dims) {
  const ostraka_fsdp_config_t config = read(given, default_fsdp_config, fsdp_config_versions);
  fsdp::ContextConfig result;
  result.recipe = static_cast<fsdp::Recipe>(config.recipe);
  result.reduction = static_cast<layout::ReduceOp>(config.reduction);
  result.gradient_slots = config.gradient_slots;
  result.gradient_slot_bytes = to_budget(config.gradient_slot_bytes);
  result.broadcast = config.broadcast != 0;
  result.placements = to_recipe_placements(config, dims);
  result.main_dtype = to_choice(config.main_dtype);
  result.compute_dtype = to_choice(config.compute_dtype);
  result.reduction_dtype = to_choice(config.reduction_dtype);
  result.prefetch = to_budget(config.prefetch);
  result.unified_stream = config.unified_stream != 0;
  return result;
}

ostraka_memory_report_t ostraka::capi::to_report(const fsdp::MemoryReport& found) {
  ostraka_memory_report_t values{};
  values.parameters = found.parameters;
  values.gradients = found.gradients;
  values.optimizer_state = found.optimizer_state;
  values.transient = found.transient;
  values.transient_peak = found.transient_peak;
  values.num_elements = found.num_elements;
  values.reserved_bytes = found.reserved;
  return values;
}
