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
  if (context_.is_backward_) {
    begin_recomputation();
    return;
  }
  require_phase(Phase::resting, "pre_forward");
  check_published("pre_forward");
  if (!context_.is_in_inference_)
    context_.status_.communicate([&] {
      unshard_groups();
      wait_unsharded();
      record(Hook::pre_forward);
      if (!groups_.empty()) // else a rank may leave this hook out
        context_.prefetch(context_.forward_.gathers().upcoming(), prefetch_);
      ++forward_uses_;
    });
  open(Phase::forward);
}

void FsdpModule::post_forward() {
  const runtime::Region region("fsdp::post_forward", full_name_);
  if (is_recomputing_) {
    end_recomputation();
    return;
  }
  require_phase(Phase::forward, "post_forward");
  close();
  if (context_.is_in_inference_)
    return;
  record(Hook::post_forward);
  if (!is_pinned_)
    context_.status_.communicate([&] { reshard_groups(); });
}

// The weights stay for the backward pass that follows, and nothing is gathered ahead: who comes next may be done.
void FsdpModule::begin_recomputation() {
  expect(!is_recomputing_, Status::INVALID_STATE, "pre_forward of module '", full_name_,
         "': it is being recomputed; call post_forward first");
  expect(
      !context_.is_in_inference_ && (phase_ == Phase::backward || is_owed()), Status::INVALID_STATE,
      "pre_forward of module '", full_name_,
      "': a backward pass has begun, and the module has no use to recompute; call finish_backward after the backward "
      "pass of each micro-batch");
  if (phase_ != Phase::backward) {
    require_phase(Phase::resting, "pre_forward");
    context_.status_.communicate([&] {
      unshard_groups();
      wait_unsharded();
      record(Hook::pre_forward);
    });
    open(Phase::forward);
  }
  is_recomputing_ = true;
}

void FsdpModule::end_recomputation() {
  is_recomputing_ = false;
  if (phase_ == Phase::backward)
    return;
  record(Hook::post_forward);
  close();
}

void FsdpModule::pre_backward() {
  const runtime::Region region("fsdp::pre_backward", full_name_);
  context_.require_finalized("pre_backward of module '" + full_name_ + "'");
  require_phase(Phase::resting, "pre_backward");
  expect(!context_.is_in_inference_, Status::INVALID_STATE, "pre_backward of module '", full_name_,
         "': not allowed between begin_inference and end_inference");
  expect(is_owed(), Status::INVALID_STATE, "pre_backward of module '", full_name_,
         "': it has no forward pass to go back through (", forward_uses_, " forward and ", backward_uses_,
         " backward passes since the last finish_backward)");
  check_can_accumulate();
  context_.status_.communicate([&] {
    unshard_groups();
    wait_unsharded();
    context_.is_backward_ = true;
    record(Hook::pre_backward);
    if (!groups_.empty()) // else a rank may leave this hook out
      context_.prefetch(context_.backward_.gathers().upcoming(), prefetch_);
  });
  open(Phase::backward);
}

void FsdpModule::post_backward() {
  const runtime::Region region("fsdp::post_backward", full_name_);
  require_phase(Phase::backward, "post_backward");
  expect(!is_recomputing_, Status::INVALID_STATE, "post_backward of module '", full_name_,
         "': it is being recomputed; call post_forward first");
  close();
  ++backward_uses_;
  record(Hook::post_backward);
  context_.status_.communicate([&] {
    if (!is_pinned_)
      reshard_groups();
    if (!is_owed())
      complete_gradients("post_backward");
  });
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
    record(Hook::unshard);
    if (ahead != Ahead::none)
      context_.prefetch((ahead == Ahead::forward ? context_.forward_ : context_.backward_).gathers().after(id_),
                        prefetch_);
  });
  is_pinned_ = true;
}

void FsdpModule::reshard() {
  const runtime::Region region("fsdp::reshard", full_name_);
  expect(is_pinned_, Status::INVALID_STATE, "reshard of module '", full_name_,
         "': it was not unsharded; call unshard first");
  expect(!writes_unhooked_, Status::INVALID_STATE, "reshard of module '", full_name_,
         "': gradients were written that are not reduced yet; call reduce_gradients first");
  is_pinned_ = false;
  if (context_.is_in_inference_)
    return;
  record(Hook::reshard);
  if (phase_ == Phase::resting)
    context_.status_.communicate([&] { reshard_groups(); });
}

void FsdpModule::reduce_gradients() {
  const runtime::Region region("fsdp::reduce_gradients", full_name_);
  context_.require_finalized("reduce_gradients of module '" + full_name_ + "'");
  require_phase(Phase::resting, "reduce_gradients");
  expect(!context_.is_in_inference_, Status::INVALID_STATE, "reduce_gradients of module '", full_name_,
         "': not allowed between begin_inference and end_inference");
  expect(backward_uses_ == 0 || !is_owed(), Status::INVALID_STATE, "reduce_gradients of module '", full_name_,
         "': post_backward of its last use does that");
  check_can_accumulate();
  if (!is_trainable())
    return;
  ++reductions_;
  record(Hook::reduce_gradients);
  context_.status_.communicate([&] { complete_gradients("reduce_gradients"); });
}

// --- inside

void FsdpModule::record(Hook hook) {
  if (groups_.empty())
    return;
  context_.journal_.add({id_, hook});
  if (hook != Hook::unshard && hook != Hook::reshard && hook != Hook::reduce_gradients)
    (context_.is_backward_ ? context_.backward_ : context_.forward_).visit({id_, hook});
}

void FsdpModule::check_can_accumulate() const {
  for (const auto& group : groups_)
    if (group->is_trainable())
      group->check_can_accumulate();
}

void FsdpModule::unshard_groups() {
  const runtime::Region region("fsdp::gather", full_name_);
  const Resources& resources = *context_.resources_;
  comm::Launches launches(resources.communicators.gather, *resources.gather,
                          groups_.size() > 1 && resources.gathers_outwards_in());
  std::exception_ptr failure;
  for (const auto& group : groups_)
    try {
      group->weights().unshard();
    } catch (...) { // what was asked for before is completed
      failure = std::current_exception();
      break;
    }
  launches.submit();
  for (const auto& group : groups_)
    group->weights().complete_unshard();
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
                        (backward_uses_ > 0 && skipped_uses_ == backward_uses_ && reductions_ == 0);
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

// All groups go from one step to the next together, so that each step is one launch.
void FsdpModule::reduce() {
  const Resources& resources = *context_.resources_;
  for (const int step : {0, 1}) {
    const bool collects =
        reduced_.size() > 1 && resources.reductions(step) == 1 &&
        std::none_of(reduced_.begin(), reduced_.end(), [](const auto* group) { return group->updates(); });
    comm::Launches launches(resources.communicators.reduce, *resources.reduce, collects);
    for (ParameterGroup* group : reduced_)
      step == 0 ? group->reduce_contribution() : group->reduce_at_the_end();
    launches.submit();
    for (ParameterGroup* group : reduced_)
      step == 0 ? group->add_contribution() : group->end_reduction();
  }
}

void FsdpModule::finish_microbatch() {
  phase_ = Phase::resting;
  is_recomputing_ = writes_unhooked_ = false;
  forward_uses_ = backward_uses_ = skipped_uses_ = reductions_ = 0;
  if (!is_pinned_)
    reshard_groups(); // gathered ahead, but not used
  for (const auto& group : groups_)
    group->finish_reduction();
}

} // namespace ostraka::fsdp
