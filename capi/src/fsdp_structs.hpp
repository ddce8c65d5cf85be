// SPDX-License-Identifier: Apache-2.0
// Structs of fsdp.h, which contexts and plans have in common.
#pragma once

#include "objects.hpp"
#include <ostraka/fsdp.h>
#include <ostraka/fsdp/memory_report.hpp>
#include <ostraka/fsdp/recipe.hpp>

#include <cstdint>
#include <optional>

namespace ostraka::capi {

extern const ostraka_fsdp_config_t default_fsdp_config;
constexpr Versions fsdp_config_versions{"fsdp config", OSTRAKA_FSDP_CONFIG_VERSION, 32};

/// -1: none.
inline std::optional<std::int64_t> to_budget(std::int64_t amount) {
  return amount == -1 ? std::nullopt : std::optional(amount);
}

/// For a mesh of `dims` axes; defaults for null.
fsdp::ContextConfig to_config(const ostraka_fsdp_config_t* given, int dims);

ostraka_memory_report_t to_report(const fsdp::MemoryReport& found);

} // namespace ostraka::capi
