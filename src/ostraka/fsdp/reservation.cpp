// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/reservation.hpp>

#include <algorithm>
#include <span>

namespace ostraka::fsdp {

namespace {

using Change = std::function<void(int)>;

void walk(const std::vector<Event>& events, Hook begin, const std::vector<ModuleNeeds>& modules, const Change& take,
          const Change& give_back) {
  const std::vector<int> order = gathers(events, begin);
  std::vector<std::int64_t> elements;
  for (const ModuleNeeds& module : modules)
    elements.push_back(module.elements);
  std::span<const int> upcoming(order);
  std::vector<char> is_whole(modules.size(), 0);
  const auto take_once = [&](int module) {
    char& is_taken = is_whole[static_cast<std::size_t>(module)];
    if (is_taken == 0)
      take(module);
    is_taken = 1;
  };
  for (const Event& event : events) {
    if (event.hook == begin) {
      upcoming = upcoming.subspan(1);
      take_once(event.module);
      const auto& budget = modules[static_cast<std::size_t>(event.module)].prefetch;
      for (const int next : upcoming.first(static_cast<std::size_t>(modules_ahead(upcoming, elements, budget))))
        take_once(next);
    } else {
      give_back(event.module);
      is_whole[static_cast<std::size_t>(event.module)] = 0;
    }
  }
}

} // namespace

void ModuleNeeds::add(const GroupPlan& group) {
  ++groups;
  elements += group.layout->payload();
  const std::int64_t bytes = group.slot_bytes();
  slots += bytes > 0 ? 1 : 0;
  slot_bytes = std::max(slot_bytes, bytes);
}

void walk_gathers(const std::vector<Event>& forward, const std::vector<Event>& backward,
                  const std::vector<ModuleNeeds>& modules, const Change& take, const Change& give_back) {
  walk(forward, Hook::pre_forward, modules, take, give_back);
  walk(backward, Hook::pre_backward, modules, take, give_back);
}

SlotNeeds slot_needs(const std::vector<Event>& backward, const std::vector<ModuleNeeds>& modules) {
  SlotNeeds needs;
  for (const ModuleNeeds& module : modules) {
    needs.bytes = std::max(needs.bytes, module.slot_bytes);
    needs.needed += module.slots;
  }
  int bound = 0;
  for (const Event& event : backward) {
    const int own = modules[static_cast<std::size_t>(event.module)].slots;
    bound += event.hook == Hook::pre_backward ? own : -own;
    needs.at_once = std::max(needs.at_once, bound);
  }
  return needs;
}

} // namespace ostraka::fsdp
