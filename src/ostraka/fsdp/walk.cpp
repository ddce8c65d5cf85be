// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/walk.hpp>

namespace ostraka::fsdp {

const char* name(Phase phase) {
  switch (phase) {
  case Phase::resting:
    return "resting";
  case Phase::forward:
    return "forward";
  case Phase::backward:
    return "backward";
  }
  return "unknown";
}

// Modules without parameters communicate nothing, so their hooks may be left out.
void Walk::expect_first(const ModuleTree& tree, std::vector<ModuleNeeds> needs) {
  needs_ = std::move(needs);
  elements_.clear();
  for (const ModuleNeeds& module : needs_)
    elements_.push_back(module.elements);
  const auto with_parameters = [&](std::vector<Event> events) {
    std::erase_if(events, [&](const Event& event) { return !has_groups(event.module); });
    return events;
  };
  forward_.expect_first(with_parameters(tree.forward()));
  backward_.expect_first(with_parameters(tree.backward()));
}

void Walk::record(Event event) {
  if (!has_groups(event.module))
    return;
  journal_.add(event);
  if (event.hook != Hook::unshard && event.hook != Hook::reshard && event.hook != Hook::reduce_gradients)
    (is_backward_ ? backward_ : forward_).visit(event);
}

void Walk::end_passes(bool has_failed) {
  open_.clear();
  journal_.clear();
  is_backward_ = false;
  if (!has_failed && backward_.has_started())
    forward_.finish();
  else
    forward_.cancel(); // any number of forward passes alone says nothing about the next step
  if (has_failed)
    backward_.cancel();
  else
    backward_.finish();
}

} // namespace ostraka::fsdp
