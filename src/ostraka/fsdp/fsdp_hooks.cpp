// SPDX-License-Identifier: Apache-2.0
// What a module does when the caller says that it runs.
#include <ostraka/base/error.hpp>
#include <ostraka/comm/launches.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/fsdp/fsdp_module.hpp>
#include <ostraka/runtime/region.hpp>

#include <algorithm>
#include <exception>
#include <vector>

namespace ostraka::fsdp {

void FsdpModule::pre_forward() {
  const runtime::Region region("fsdp::pre_forward", full_name_);
  context_.require_finalized("pre_forward of module '" + full_name_ + "'");
  Walk& walk = context_.walk_;
  if (walk.is_backward()) {
    check_recomputes();
    return context_.status_.communicate([&] { walk.begin_recomputation(*this); });
  }
  require_phase(Phase::resting, "pre_forward");
  check_published("pre_forward");
  if (context_.is_in_inference_)
    return walk.open(*this, Phase::forward);
  context_.status_.communicate([&] { walk.begin(context_.modules_, {id_, Hook::pre_forward}); });
}

void FsdpModule::post_forward() {
  const runtime::Region region("fsdp::post_forward", full_name_);
  if (!uses_.is_recomputing)
    require_phase(Phase::forward, "post_forward");
  if (context_.is_in_inference_)
    return context_.walk_.close(*this);
  context_.status_.communicate([&] { context_.walk_.post_forward(*this); });
}

void FsdpModule::check_recomputes() const {
  expect(!uses_.is_recomputing, Status::INVALID_STATE, "pre_forward of module '", full_name_,
         "': it is being recomputed; call post_forward first");
  expect(
      !context_.is_in_inference_ && (uses_.phase == Phase::backward || uses_.is_owed()), Status::INVALID_STATE,
      "pre_forward of module '", full_name_,
      "': a backward pass has begun, and the module has no use to recompute; call finish_backward after the backward "
      "pass of each micro-batch");
  if (uses_.phase != Phase::backward)
    require_phase(Phase::resting, "pre_forward");
}

void FsdpModule::pre_backward() {
  const runtime::Region region("fsdp::pre_backward", full_name_);
  context_.require_finalized("pre_backward of module '" + full_name_ + "'");
  require_phase(Phase::resting, "pre_backward");
  expect(!context_.is_in_inference_, Status::INVALID_STATE, "pre_backward of module '", full_name_,
         "': not allowed between begin_inference and end_inference");
  expect(uses_.is_owed(), Status::INVALID_STATE, "pre_backward of module '", full_name_,
         "': it has no forward pass to go back through (", uses_.forward, " forward and ", uses_.backward,
         " backward passes since the last finish_backward)");
  check_can_accumulate();
  context_.status_.communicate([&] { context_.walk_.begin(context_.modules_, {id_, Hook::pre_backward}); });
}

void FsdpModule::post_backward() {
  const runtime::Region region("fsdp::post_backward", full_name_);
  require_phase(Phase::backward, "post_backward");
  expect(!uses_.is_recomputing, Status::INVALID_STATE, "post_backward of module '", full_name_,
         "': it is being recomputed; call post_forward first");
  context_.status_.communicate([&] { context_.walk_.post_backward(*this); });
}

void FsdpModule::skip_forward() {
  pre_forward();
  post_forward();
}

void FsdpModule::skip_backward() {
  pre_backward();
  ++skipped_uses_;
  post_backward();
}

// --- schedules of the caller's own

void FsdpModule::unshard(Ahead ahead) {
  const runtime::Region region("fsdp::unshard", full_name_);
  context_.require_finalized("unshard of module '" + full_name_ + "'");
  expect(ahead == Ahead::none || ahead == Ahead::forward || ahead == Ahead::backward, Status::INVALID_ARGUMENT,
         "unshard of module '", full_name_, "': expected ahead none (0), forward (1) or backward (2), found ",
         static_cast<std::int32_t>(ahead));
  check_published("unshard");
  context_.status_.communicate([&] {
    unshard_groups();
    wait_unsharded();
    if (context_.is_in_inference_)
      return;
    context_.walk_.record({id_, Hook::unshard});
    Walk& walk = context_.walk_;
    if (ahead != Ahead::none)
      walk.gather_ahead(context_.modules_,
                        (ahead == Ahead::forward ? walk.forward() : walk.backward()).gathers().after(id_), id_);
  });
  uses_.is_pinned = true;
}

void FsdpModule::reshard() {
  const runtime::Region region("fsdp::reshard", full_name_);
  expect(uses_.is_pinned, Status::INVALID_STATE, "reshard of module '", full_name_,
         "': it was not unsharded; call unshard first");
  expect(!writes_unhooked_, Status::INVALID_STATE, "reshard of module '", full_name_,
         "': gradients were written that are not reduced yet; call reduce_gradients first");
  uses_.is_pinned = false;
  if (context_.is_in_inference_)
    return;
  context_.walk_.record({id_, Hook::reshard});
  if (uses_.phase == Phase::resting)
    context_.status_.communicate([&] { reshard_groups(); });
}

void FsdpModule::reduce_gradients() {
  const runtime::Region region("fsdp::reduce_gradients", full_name_);
  context_.require_finalized("reduce_gradients of module '" + full_name_ + "'");
  require_phase(Phase::resting, "reduce_gradients");
  expect(!context_.is_in_inference_, Status::INVALID_STATE, "reduce_gradients of module '", full_name_,
         "': not allowed between begin_inference and end_inference");
  expect(!uses_.is_partly_owed(), Status::INVALID_STATE, "reduce_gradients of module '", full_name_,
         "': post_backward of its last use does that");
  check_can_accumulate();
  if (!is_trainable())
    return;
  ++reductions_;
  context_.walk_.record({id_, Hook::reduce_gradients});
  context_.status_.communicate([&] { complete_gradients("reduce_gradients"); });
}

// --- inside

void FsdpModule::check_can_accumulate() const {
  for (const auto& group : groups_)
    if (group->is_trainable())
      group->check_can_accumulate();
}

void FsdpModule::unshard_groups() {
  const runtime::Region region("fsdp::gather", full_name_);
  const Resources& resources = *context_.resources_;
  std::exception_ptr failure;
  unshard_together(groups_, [&](auto&& ask) {
    comm::Launches launches(resources.communicators.gather, *resources.gather,
                            groups_.size() > 1 && resources.gathers_outwards_in());
    try {
      ask();
    } catch (...) { // what was asked for before is completed
      failure = std::current_exception();
    }
    launches.submit();
  });
  if (failure)
    std::rethrow_exception(failure);
}

void FsdpModule::wait_unsharded() {
  for (const auto& group : groups_)
    group->weights().wait_unsharded();
}

void FsdpModule::reshard_groups() {
  for (const auto& group : groups_) {
    if (group->weights().were_written())
      context_.status_.record(Error(Status::INVALID_STATE, "weights of '" + group->full_name(0) +
                                                               "' and its like were written while module '" +
                                                               full_name_ + "' was in use; they are read-only"));
    group->weights().reshard();
  }
}

void FsdpModule::complete_gradients(const char* operation) {
  const runtime::Region region("fsdp::reduce", full_name_);
  const bool may_miss = context_.is_draining_ || allows_unused_ ||
                        (uses_.backward > 0 && skipped_uses_ == uses_.backward && reductions_ == 0);
  reduced_.clear();
  for (const auto& group : groups_) {
    if (!group->is_trainable())
      continue;
    const auto missing = group->missing_gradients();
    if (!missing.empty() && !may_miss)
      context_.status_.record(Error(Status::INVALID_STATE, std::string(operation) + " of module '" + full_name_ +
                                                               "': parameter '" + missing.front() +
                                                               "' got no gradient; ask for it and write it, or "
                                                               "declare the parameter frozen"));
    if (group->begin_reduction(context_.is_last_microbatch_))
      reduced_.push_back(group.get());
  }
  reduce();
  writes_unhooked_ = false;
}

// Each step is one launch.
void FsdpModule::reduce() {
  const Resources& resources = *context_.resources_;
  reduce_together(reduced_, [&](int step, auto&& queue) {
    const bool collects =
        reduced_.size() > 1 && resources.reductions(step) == 1 &&
        std::none_of(reduced_.begin(), reduced_.end(), [](const auto* group) { return group->updates(); });
    comm::Launches launches(resources.communicators.reduce, *resources.reduce, collects);
    queue();
    launches.submit();
  });
}

void FsdpModule::finish_microbatch() {
  writes_unhooked_ = false;
  skipped_uses_ = reductions_ = 0;
  for (const auto& group : groups_)
    group->finish_reduction();
}

} // namespace ostraka::fsdp
