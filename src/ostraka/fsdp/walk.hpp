// SPDX-License-Identifier: Apache-2.0
// A micro-batch, hook by hook: in which order modules ask for weights, gather ahead, let go and reduce, and where each
// of them is meanwhile. Contexts and dry runs make this walk. Pure. Source: spec/megatron_fsdp.md 3.6 - 3.8.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/module_tree.hpp>
#include <ostraka/fsdp/reservation.hpp>
#include <ostraka/fsdp/schedule.hpp>

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace ostraka::fsdp {

enum class Phase { resting, forward, backward };
OSTRAKA_API const char* name(Phase phase); ///< as in messages

/// Where a module is; counts are of the present micro-batch.
struct Uses {
  Phase phase = Phase::resting;
  bool is_pinned = false;      ///< between unshard() and reshard()
  bool is_recomputing = false; ///< between the forward hooks of a backward pass
  int forward = 0;
  int backward = 0;

  bool is_owed() const { return backward < forward; }               ///< still to go backward
  bool is_partly_owed() const { return backward > 0 && is_owed(); } ///< has a gradient that nobody reduces
};

/// `Modules` are pointers by number, to what carries out the walk: id(), uses(), groups(), unshard_groups(),
/// wait_unsharded(), reshard_groups(), complete_gradients(operation), is_updated(). What these throw is passed on.
class OSTRAKA_API Walk {
public:
  /// Ends set-up: the hooks of the first step are those of `tree`. `needs`: [module].
  void expect_first(const ModuleTree& tree, std::vector<ModuleNeeds> needs);
  /// Takes what that step has at the same time, and gives it back.
  template <class Modules, class Slots>
  void reserve(const ModuleTree& tree, const Modules& modules, Slots& slots) const;

  /// pre_forward and pre_backward.
  template <class Modules>
  void begin(const Modules& modules, Event event);
  /// pre_forward in a backward pass: the weights stay for the hooks that follow, and nothing is gathered ahead: who
  /// comes next may be done.
  template <class Module>
  void begin_recomputation(Module& module);
  template <class Module>
  void post_forward(Module& module);
  template <class Module>
  void post_backward(Module& module);
  /// Ends the micro-batch. Unless it failed, the next one is expected to be like it.
  template <class Modules>
  void finish(const Modules& modules, bool has_failed);

  // Parts of hooks, for schedules of the caller's own, inference, and what is left to do after a failure.
  /// Modules without parameters are in no order.
  void record(Event event);
  template <class Modules>
  void gather_ahead(const Modules& modules, std::span<const int> upcoming, int module);
  template <class Module>
  void open(Module& module, Phase phase) {
    module.uses().phase = phase;
    open_.push_back(module.id());
  }
  template <class Module>
  void close(Module& module) {
    module.uses().phase = Phase::resting;
    std::erase(open_, module.id());
  }

  void begin_backward() { is_backward_ = true; }
  bool is_backward() const { return is_backward_; } ///< the backward pass of this micro-batch has begun
  const Pass& forward() const { return forward_; }
  const Pass& backward() const { return backward_; }
  const Journal& journal() const { return journal_; }
  /// In their forward or backward phase, the last one opened last.
  const std::vector<int>& open_modules() const { return open_; }

private:
  void end_passes(bool has_failed);
  bool has_groups(int module) const { return needs_[static_cast<std::size_t>(module)].groups > 0; }

  std::vector<ModuleNeeds> needs_;
  std::vector<std::int64_t> elements_; ///< [module], of whole weights
  Pass forward_{Hook::pre_forward};
  Pass backward_{Hook::pre_backward};
  Journal journal_;
  std::vector<int> open_;
  bool is_backward_ = false;
};

/// The groups of a module ask for their weights one by one, and together for what they gather: launch(body) submits
/// what `body` queues.
template <class Groups, class Launch>
void unshard_together(const Groups& groups, Launch&& launch) {
  launch([&] {
    for (const auto& group : groups)
      group->weights().unshard();
  });
  for (const auto& group : groups)
    group->weights().complete_unshard();
}

/// Groups whose reduction has begun go from one of its two steps to the next together: launch(step, body).
template <class Groups, class Launch>
void reduce_together(const Groups& groups, Launch&& launch) {
  launch(0, [&] {
    for (const auto& group : groups)
      group->reduce_contribution();
  });
  for (const auto& group : groups)
    group->add_contribution();
  launch(1, [&] {
    for (const auto& group : groups)
      group->reduce_at_the_end();
  });
  for (const auto& group : groups)
    group->end_reduction();
}

template <class Modules, class Slots>
void Walk::reserve(const ModuleTree& tree, const Modules& modules, Slots& slots) const {
  const std::vector<Event> backward = tree.backward();
  const SlotNeeds needed = slot_needs(backward, needs_);
  slots.reserve(needed.bytes, needed.needed, needed.at_once);
  const auto take = [&](int module) {
    for (const auto& group : modules[static_cast<std::size_t>(module)]->groups())
      group->weights().reserve();
  };
  const auto give_back = [&](int module) {
    for (const auto& group : modules[static_cast<std::size_t>(module)]->groups())
      group->weights().give_back();
  };
  walk_gathers(tree.forward(), backward, needs_, take, give_back);
}

template <class Modules>
void Walk::begin(const Modules& modules, Event event) {
  auto& module = *modules[static_cast<std::size_t>(event.module)];
  const bool is_forward = event.hook == Hook::pre_forward;
  module.unshard_groups();
  module.wait_unsharded();
  is_backward_ = is_backward_ || !is_forward;
  record(event);
  if (has_groups(event.module)) // else a rank may leave this hook out
    gather_ahead(modules, (is_forward ? forward_ : backward_).gathers().upcoming(), event.module);
  module.uses().forward += is_forward ? 1 : 0;
  open(module, is_forward ? Phase::forward : Phase::backward);
}

template <class Module>
void Walk::begin_recomputation(Module& module) {
  if (module.uses().phase != Phase::backward) {
    module.unshard_groups();
    module.wait_unsharded();
    record({module.id(), Hook::pre_forward});
    open(module, Phase::forward);
  }
  module.uses().is_recomputing = true;
}

template <class Module>
void Walk::post_forward(Module& module) {
  Uses& uses = module.uses();
  const bool was_recomputing = std::exchange(uses.is_recomputing, false);
  if (was_recomputing && uses.phase == Phase::backward)
    return;
  close(module);
  record({module.id(), Hook::post_forward});
  if (!was_recomputing && !uses.is_pinned)
    module.reshard_groups();
}

template <class Module>
void Walk::post_backward(Module& module) {
  Uses& uses = module.uses();
  close(module);
  ++uses.backward;
  record({module.id(), Hook::post_backward});
  if (!uses.is_pinned)
    module.reshard_groups();
  if (!uses.is_owed())
    module.complete_gradients("post_backward");
}

template <class Modules>
void Walk::finish(const Modules& modules, bool has_failed) {
  end_passes(has_failed);
  for (const auto& module : modules) {
    const bool is_pinned = module->uses().is_pinned;
    module->uses() = {};
    module->uses().is_pinned = is_pinned;
    if (!is_pinned)
      module->reshard_groups(); // gathered ahead, but not used
  }
}

template <class Modules>
void Walk::gather_ahead(const Modules& modules, std::span<const int> upcoming, int module) {
  const int ahead = modules_ahead(upcoming, elements_, needs_[static_cast<std::size_t>(module)].prefetch);
  for (const int next : upcoming.first(static_cast<std::size_t>(ahead)))
    if (auto& other = *modules[static_cast<std::size_t>(next)];
        !other.is_updated()) // else it ran earlier than predicted, and its weights are changing
      other.unshard_groups();
}

} // namespace ostraka::fsdp
