// SPDX-License-Identifier: Apache-2.0
// The end of a micro-batch: what a rank still owes the others, one status for all, and a fresh start.
#include <ostraka/comm/agreement.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>

#include <algorithm>

namespace ostraka::fsdp {

void FsdpContext::begin_backward() {
  require_finalized("begin_backward");
  expect(!is_in_inference_, Status::INVALID_STATE,
         "begin_backward: not allowed between begin_inference and end_inference");
  if (walk_.is_backward())
    return;
  for (const auto& module : modules_)
    module->require_phase(Phase::resting, "begin_backward");
  walk_.begin_backward();
}

void FsdpContext::finish_backward() {
  require_finalized("finish_backward");
  expect(!is_in_inference_, Status::INVALID_STATE,
         "finish_backward: not allowed between begin_inference and end_inference");
  status_.communicate([&] {
    check_uses();
    is_draining_ = true;
    status_.attempt([&] { drain_step(); });
    wait_for_reductions();
    is_draining_ = false;
    const Hash order = Hash().add(walk_.journal().hash()).add(has_gone_backward() && is_last_microbatch_);
    bool is_same_order = true;
    try {
      is_same_order = status_.agree(*resources_->communicators.all, order.value());
    } catch (const Error& error) {
      if (!status_.is_terminal(error)) {
        if (is_last_microbatch_ && updates_while_reducing())
          end_between_steps(error);
        end_pass(true);
        align_clocks();
      }
      throw;
    }
    if (!is_same_order)
      throw_different_orders();
    end_pass(false);
  });
}

// On hosts peers read the slots until then.
void FsdpContext::wait_for_reductions() {
  status_.wait(*resources_->compute, resources_->reduce->record(), "finish_backward",
               [this] { return resources_->communicators.failures(); });
}

bool FsdpContext::updates_while_reducing() const {
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      if (group->updates_while_reducing())
        return true;
  return false;
}

// Some weights are those of the next step on some ranks.
void FsdpContext::end_between_steps(const Error& error) {
  const Error last(error.status(), std::string(error.what()) +
                                       "; weights were updated while gradients were reduced (fuse_with_reduction) and "
                                       "are between two steps, so that the context can only be destroyed");
  status_.end(last);
  throw last;
}

// What was gathered and reduced is other modules' where the sizes fitted, and more may be under way: the end.
void FsdpContext::throw_different_orders() {
  const std::string what = "finish_backward: ranks ran modules in different orders";
  const auto text = [&](std::span<const std::int64_t> rest) {
    if (rest.empty())
      return std::string("missing");
    const Event event = to_event(rest.front());
    return std::string(name(event.hook)) + " of module '" + modules_[event.module]->full_name() + "'";
  };
  try {
    comm::Communicator& all = *resources_->communicators.all;
    const std::vector<std::int64_t> first = comm::from_first_rank(all, walk_.journal().events());
    const std::vector<std::int64_t>& own = walk_.journal().events();
    const auto same = std::mismatch(own.begin(), own.end(), first.begin(), first.end()).first - own.begin();
    std::optional<Error> difference;
    if (own != first)
      difference.emplace(Status::RANKS_DISAGREE, what + ": hook " + std::to_string(same + 1) +
                                                     " since the last finish_backward is " +
                                                     text(std::span(own).subspan(same)) + " here and " +
                                                     text(std::span(first).subspan(same)) + " on rank 0");
    comm::agree_on_status(all, difference);
    fail(Status::RANKS_DISAGREE, what, ", or called set_last_microbatch with different values");
  } catch (const Error& error) {
    status_.end(error);
    throw;
  }
}

// A rank that failed may have counted fewer uses of weights than its peers.
void FsdpContext::align_clocks() {
  if (!resources_->mesh->shares_nodes())
    return;
  comm::SharedMemory* shared = resources_->shared.get();
  const std::int64_t latest = comm::largest(*resources_->communicators.all, shared != nullptr ? shared->now() : 0);
  if (shared != nullptr)
    shared->advance_to(latest);
}

bool FsdpContext::has_gone_backward() const {
  return std::any_of(modules_.begin(), modules_.end(), [](const auto& module) { return module->has_contributed(); });
}

// Mistakes of this rank, known before it helps the others to an end.
void FsdpContext::check_uses() {
  const bool is_training = has_gone_backward();
  const auto record = [&](const FsdpModule& module, const std::string& text) {
    status_.record(Error(Status::INVALID_STATE, "finish_backward: module '" + module.full_name() + "' " + text));
  };
  for (const auto& module : modules_) {
    const int forward = module->uses_.forward, backward = module->uses_.backward;
    if (module->phase() != Phase::resting)
      record(*module, std::string("is still in its ") + fsdp::name(module->phase()) + " phase");
    if (module->writes_unhooked_)
      record(*module, "has gradients that were written after unshard and not reduced; call reduce_gradients");
    const bool is_left_out = is_training && module->is_trainable() && !module->allows_unused_;
    if (module->reductions_ > 0 || !(backward > 0 ? backward < forward : is_left_out))
      continue;
    if (forward > 0)
      record(*module, "went forward " + std::to_string(forward) + " times but backward " + std::to_string(backward) +
                          " times; evaluate between begin_inference and end_inference" +
                          (backward > 0 ? "" : ", or allow_unused if its gradient is zero"));
    else
      record(*module, "ran neither forward nor backward, so parameter '" + module->declared_.front().name +
                          "' and its like got no gradient; say allow_unused if all ranks leave it out, freeze it, or "
                          "call skip_forward and skip_backward on ranks that do not need it");
  }
}

// Does what this rank still owes the others: hooks without arithmetic after a failure, reductions of modules whose uses
// did not all go backward, and of those that nobody used.
void FsdpContext::drain_step() {
  if (status_.has_failed()) {
    for (const auto& module : modules_)
      for (const auto& group : module->groups())
        group->zero_grad(); // nothing of this step counts, and nothing may refuse the hooks below
    if (walk_.is_backward())
      close_modules(true); // who went backward has forgotten these
    drain_passes();
    close_modules(false);
  }
  contribute_zeros();
}

void FsdpContext::drain_passes() {
  if (!walk_.is_backward())
    drain(walk_.forward());
  walk_.begin_backward(); // a backward pass may begin with recomputations
  drain(walk_.backward());
}

// Runs the hooks that are expected until the end of the pass.
void FsdpContext::drain(const Pass& pass) {
  if (!pass.follows())
    close_modules(false);
  for (auto event = pass.next(); event && may_run(*event); event = pass.next()) {
    run(*event);
    if (!pass.follows()) // how modules nest is not known
      close_modules(false);
  }
}

// Else the recorded order does not fit this step.
bool FsdpContext::may_run(Event event) const {
  const FsdpModule& module = *modules_[event.module];
  switch (event.hook) {
  case Hook::pre_forward:
    return module.phase() == Phase::resting && (!walk_.is_backward() || module.uses_.is_owed());
  case Hook::post_forward:
    return module.phase() == Phase::forward;
  case Hook::pre_backward:
    return module.phase() == Phase::resting && module.uses_.is_owed();
  case Hook::post_backward:
    return module.phase() == Phase::backward && !module.uses_.is_recomputing;
  default:
    return false;
  }
}

void FsdpContext::run(Event event) {
  FsdpModule& module = *modules_[event.module];
  switch (event.hook) {
  case Hook::pre_forward:
    return module.pre_forward();
  case Hook::post_forward:
    return module.post_forward();
  case Hook::pre_backward:
    return module.pre_backward();
  default:
    return module.post_backward();
  }
}

// From the inside out, as on the other ranks.
void FsdpContext::close_modules(bool forward_only) {
  const std::vector<int> open = walk_.open_modules();
  for (auto id = open.rbegin(); id != open.rend(); ++id)
    if (const Uses& uses = modules_[*id]->uses_;
        !forward_only || (uses.phase == Phase::forward && !uses.is_recomputing))
      close(*modules_[*id]);
}

void FsdpContext::close(FsdpModule& module) {
  if (module.uses_.is_recomputing)
    module.post_forward();
  if (module.phase() == Phase::forward)
    module.post_forward();
  else if (module.phase() == Phase::backward)
    module.post_backward();
}

// Modules are in the same order on all ranks, which find the same ones here.
void FsdpContext::contribute_zeros() {
  const bool is_training = has_gone_backward();
  for (const auto& module : modules_) {
    const bool is_unused =
        is_training && module->is_trainable() && module->allows_unused_ && !module->has_contributed();
    const bool is_pending = module->writes_unhooked_ || module->uses_.is_partly_owed();
    if (is_unused)
      try {
        module->check_can_accumulate();
      } catch (const Error& error) { // others may have failed and dropped their gradients: take part all the same
        status_.record(error);
        for (const auto& group : module->groups())
          group->zero_grad();
      }
    if (is_unused || is_pending)
      module->complete_gradients("finish_backward");
  }
}

void FsdpContext::end_pass(bool failed) {
  walk_.finish(modules_, failed);
  for (const auto& module : modules_)
    module->finish_microbatch();
  resources_->slots.release_storage();
  if (failed)
    zero_grad();
}

void FsdpContext::skip_microbatch() {
  require_finalized("skip_microbatch");
  expect(!is_in_inference_, Status::INVALID_STATE,
         "skip_microbatch: not allowed between begin_inference and end_inference");
  expect(!walk_.is_backward() && !walk_.forward().has_started() && walk_.open_modules().empty() && !has_gone_backward(),
         Status::INVALID_STATE,
         "skip_microbatch: hooks of this micro-batch have run; skip the others one by one, or call finish_backward");
  status_.communicate([&] {
    is_draining_ = true; // gradients may be missing
    status_.attempt([&] { drain_passes(); });
    is_draining_ = false;
  });
  finish_backward();
}

void FsdpContext::fail_step(const std::string& message) {
  require_finalized("fail_step");
  status_.fail(message);
}

void FsdpContext::set_last_microbatch(bool is_last) {
  require_finalized("set_last_microbatch");
  is_last_microbatch_ = is_last;
}

void FsdpContext::zero_grad() {
  require_finalized("zero_grad");
  for (const auto& module : modules_)
    expect(!module->has_contributed() && !module->writes_unhooked_ && module->phase() != Phase::backward,
           Status::INVALID_STATE, "zero_grad: module '", module->full_name(),
           "' is in a backward pass; call finish_backward first");
  for (const auto& module : modules_)
    for (const auto& group : module->groups()) {
      if (group->is_updated()) // while gradients were reduced
        status_.communicate([&] { group->publish(true); });
      group->zero_grad();
    }
}

// --- inference

void FsdpContext::begin_inference() {
  require_finalized("begin_inference");
  expect(!is_in_inference_, Status::INVALID_STATE, "begin_inference: it was called already");
  for (const auto& module : modules_) {
    module->require_phase(Phase::resting, "begin_inference");
    module->check_published("begin_inference");
  }
  status_.communicate([&] {
    for (const auto& module : modules_)
      module->unshard_groups();
    for (const auto& module : modules_)
      module->wait_unsharded();
  });
  is_in_inference_ = true;
}

void FsdpContext::end_inference() {
  expect(is_in_inference_, Status::INVALID_STATE, "end_inference: begin_inference was not called");
  is_in_inference_ = false;
  status_.communicate([&] {
    for (const auto& module : modules_) {
      walk_.close(*module); // a pass that was broken off is over
      if (!module->uses_.is_pinned)
        module->reshard_groups();
    }
  });
}

} // namespace ostraka::fsdp
