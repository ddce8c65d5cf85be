// SPDX-License-Identifier: Apache-2.0
// What a step as it is expected has in memory at the same time, so that set-up takes it from the system. Pure.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/group_plan.hpp>
#include <ostraka/fsdp/schedule.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace ostraka::fsdp {

/// Of one module.
struct OSTRAKA_API ModuleNeeds {
  int groups = 0;
  std::int64_t elements = 0;            ///< of whole weights
  std::optional<std::int64_t> prefetch; ///< what it gathers ahead, as modules_ahead() takes it
  int slots = 0;                        ///< gradient slots
  std::int64_t slot_bytes = 0;          ///< of the largest one

  /// A group of the module.
  void add(const GroupPlan& group);
};

/// Takes and gives back whole weights of modules as the passes do: `forward` and `backward` are expected hooks, of
/// which modules without parameters may have any. Whatever is taken is given back, unless `take` throws.
OSTRAKA_API void walk_gathers(const std::vector<Event>& forward, const std::vector<Event>& backward,
                              const std::vector<ModuleNeeds>& modules, const std::function<void(int)>& take,
                              const std::function<void(int)>& give_back);

/// What SlotRing::reserve() takes.
struct SlotNeeds {
  std::int64_t bytes = 0;
  int needed = 0;
  int at_once = 1; ///< modules around others keep theirs meanwhile
};
OSTRAKA_API SlotNeeds slot_needs(const std::vector<Event>& backward, const std::vector<ModuleNeeds>& modules);

} // namespace ostraka::fsdp
