// SPDX-License-Identifier: Apache-2.0
// The backward pass: contributions, reductions, the status of a step.
#include <ostraka/comm/agreement.hpp>
#include <ostraka/ddp/distributed_data_parallel.hpp>
#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/trace.hpp>

#include <algorithm>
#include <cmath>

namespace ostraka::ddp {

namespace {

using Gradients = BucketGroup::Gradients;

// So that a trace shows which reductions start before the last gradient is there.
void trace_ready(const std::string& name) {
  if (!runtime::trace::is_tracing())
    return;
  const auto now = runtime::trace::Clock::now();
  runtime::trace::record("ddp", "gradient_ready '" + name + "'", now, now);
}

} // namespace

DType DistributedDataParallel::gradient_dtype(const std::string& name) const {
  const Place& place = find_trainable(name, "gradient_dtype");
  return place.bucket->gradient_dtype(place.tensor);
}

DistributedDataParallel::Gradient DistributedDataParallel::gradient(const std::string& name, DType dtype) {
  const Place& place = find_trainable(name, "gradient");
  require_gradients("gradient");
  const DType expected = place.bucket->gradient_dtype(place.tensor);
  expect(dtype == expected, Status::TYPE_MISMATCH, "gradient '", name, "': kept as ", ostraka::name(expected),
         ", asked for ", ostraka::name(dtype));
  check_contribution(place, name, "gradient");
  const Bucket::Gradient found = place.bucket->gradient(place.tensor);
  return {found.data, found.accumulate ? 1.0 : 0.0};
}

void DistributedDataParallel::gradient_ready(const std::string& name) {
  const Place& place = find_trainable(name, "gradient_ready");
  require_gradients("gradient_ready");
  expect(place.bucket->is_written(place.tensor), Status::INVALID_STATE, "gradient_ready '", name,
         "': nobody asked for its gradient since the last zero_grad_buffer; write it first");
  check_contribution(place, name, "gradient_ready");
  if (!is_counting())
    return;
  trace_ready(name);
  uses_->add(place.parameter);
  resources_->status->communicate([&] {
    while (next_reduction_ < static_cast<int>(groups_.size()) && uses_->is_group_complete(next_reduction_))
      start_reduction(next_reduction_, false);
    runtime::progress_all();
  });
}

// What is contributed now would be lost; the other ranks learn it at the end of the step.
void DistributedDataParallel::check_contribution(const Place& place, const std::string& name, const char* operation) {
  const Gradients state = groups_[place.group].gradients;
  const bool is_one_too_many = is_counting() && uses_->is_complete(place.parameter);
  if (state == Gradients::open && !is_one_too_many)
    return;
  const int used = uses_->count(place.parameter), declared = uses_->expected(place.parameter);
  const std::string text = std::string(operation) + " '" + name + "': ";
  if (state == Gradients::reduced)
    fail(Status::INVALID_STATE, text, "it is reduced already; call zero_grad_buffer before the next backward pass");
  const Error error(
      Status::INVALID_STATE,
      text +
          (state == Gradients::reducing ? "the reduction of its bucket has started" : "it has all its contributions") +
          " after " + std::to_string(used) + " of " + std::to_string(declared) + " declared; say set_uses('" + name +
          "', " + std::to_string(used + 1) +
          ") where it is used that often, or no_sync for all but the last micro-batch");
  resources_->status->record(error);
  throw error;
}

void DistributedDataParallel::set_uses(const std::string& name, int uses) {
  const Place& place = find_trainable(name, "set_uses");
  expect(uses >= 0 || uses == uses_auto, Status::INVALID_ARGUMENT, "set_uses '", name,
         "': expected uses >= 0 or uses_auto (-1), found ", uses);
  expect(groups_[place.group].gradients != Gradients::reducing && uses_->count(place.parameter) == 0,
         Status::INVALID_STATE, "set_uses '", name, "': its gradient is being contributed; call it between steps");
  uses_->set_uses(place.parameter, uses);
}

void DistributedDataParallel::begin_no_sync() {
  require_finalized("no_sync");
  ++no_sync_depth_;
}

void DistributedDataParallel::end_no_sync() {
  expect(no_sync_depth_ > 0, Status::INVALID_STATE, "end_no_sync: there was no begin_no_sync");
  --no_sync_depth_;
}

// --- reductions

void DistributedDataParallel::start_reduction(int number, bool all_reduce) {
  BucketGroup& group = groups_[number];
  runtime::Stream& reduce = *resources_->reduce;
  for (const auto& bucket : group.buckets)
    bucket->prepare_reduction();
  reduce.wait(resources_->compute->record()); // sees what the caller wrote
  comm::Launches launches(group.reduction_lines, reduce, group.buckets.size() > 1);
  for (const auto& bucket : group.buckets)
    bucket->start_reduction(all_reduce);
  launches.submit();
  group.gradients = Gradients::reducing;
  next_reduction_ = number + 1;
}

// Collective operations start all gathers: a peer may wait for one that this rank had no reason to start, and here they
// have one order on all ranks.
void DistributedDataParallel::start_reductions(bool all_reduce) {
  check_missing();
  start_gathers(0);
  while (next_reduction_ < static_cast<int>(groups_.size()))
    start_reduction(next_reduction_, all_reduce);
}

bool DistributedDataParallel::is_missing(const Place& place) const {
  if (config().overlap_grad_reduce)
    return uses_->is_missing(place.parameter);
  return uses_->expected(place.parameter) != 0 && !place.bucket->is_written(place.tensor);
}

// Names the parameters that lack contributions, in the order of registration.
void DistributedDataParallel::check_missing() {
  constexpr int shown = 20;
  int found = 0;
  std::string missing;
  for (const ParameterSpec& spec : specs_) {
    const Place& place = places_.at(spec.name);
    if (place.bucket == nullptr || groups_[place.group].gradients != Gradients::open || !is_missing(place))
      continue;
    if (++found > shown)
      continue;
    missing += (missing.empty() ? "'" : ", '") + spec.name + "'";
    const int expected = uses_->expected(place.parameter), count = uses_->count(place.parameter);
    if (count > 0)
      missing += " (" + std::to_string(count) + " of " + std::to_string(expected) + ")";
  }
  if (found > shown)
    missing += " and " + std::to_string(found - shown) + " more";
  if (!missing.empty())
    resources_->status->record(
        Error(Status::INVALID_STATE, "finish_grad_sync: no gradient was contributed for " + missing +
                                         " (gradient, then gradient_ready); say set_uses(name, 0) for parameters that "
                                         "a backward pass does not reach, or freeze them"));
}

void DistributedDataParallel::start_grad_sync() {
  require_gradients("start_grad_sync");
  expect(is_syncing(), Status::INVALID_STATE, "start_grad_sync: not inside no_sync");
  resources_->status->communicate([&] {
    start_reductions(false);
    if (!config().overlap_grad_reduce)
      wait_for_reductions("start_grad_sync");
  });
}

void DistributedDataParallel::finish_grad_sync(bool force_all_reduce) {
  require_gradients("finish_grad_sync");
  expect(is_syncing(), Status::INVALID_STATE, "finish_grad_sync: not inside no_sync");
  comm::StepStatus& status = *resources_->status;
  if (is_reduced()) {
    if (!status.has_failed())
      return;
    zero_grad_buffer(); // it failed before its step began: the others reduce, and this rank takes part with zeros
  }
  status.communicate([&] {
    // With overlap some ranks may have started some reductions, so all are of one kind.
    start_reductions(force_all_reduce && !config().overlap_grad_reduce);
    if (!has_compared_weights_) { // behind reductions and gathers, which all ranks have started by now
      gather_all(false);
      compare_weights();
    }
    status.attempt([&] {
      if (force_all_reduce)
        complete_whole_gradients();
    });
    wait_for_reductions("finish_grad_sync");
    status.attempt([&] { for_all_buckets([](Bucket& bucket) { bucket.finish_reduction(); }); });
    try {
      status.agree(*dense_->communicators.all);
    } catch (const Error& error) {
      if (!status.is_terminal(error))
        end_step(true);
      throw;
    }
    end_step(false);
  });
}

void DistributedDataParallel::complete_whole_gradients() {
  for (const BucketGroup& group : groups_) {
    comm::Launches launches(group.gather_lines, *resources_->reduce, group.buckets.size() > 1);
    for (const auto& bucket : group.buckets)
      bucket->complete_whole();
    launches.submit();
  }
}

void DistributedDataParallel::wait_for_reductions(const char* operation) {
  resources_->status->wait(*resources_->compute, resources_->reduce->record(), operation, [this] {
    std::vector<std::string> causes = dense_->communicators.failures();
    if (expert_ != nullptr)
      for (std::string& cause : expert_->communicators.failures())
        causes.push_back(std::move(cause));
    return causes;
  });
}

bool DistributedDataParallel::is_reduced() const {
  return !groups_.empty() && std::all_of(groups_.begin(), groups_.end(), [](const BucketGroup& group) {
    return group.gradients == Gradients::reduced;
  });
}

void DistributedDataParallel::end_step(bool failed) {
  uses_->reset(!failed);
  next_reduction_ = static_cast<int>(groups_.size());
  for (BucketGroup& group : groups_)
    group.gradients = Gradients::reduced;
  if (failed)
    return zero_grad_buffer();
  has_compared_weights_ = true;
  ++gradient_version_;
}

void DistributedDataParallel::fail_step(const std::string& message) {
  require_finalized("fail_step");
  resources_->status->fail(message);
}

// --- the buffers

void DistributedDataParallel::zero_grad_buffer() {
  require_gradients("zero_grad_buffer");
  require_nothing_in_flight("zero_grad_buffer");
  for (BucketGroup& group : groups_) {
    group.gradients = Gradients::open;
    for (const auto& bucket : group.buckets)
      bucket->zero_grad();
  }
  uses_->reset(false);
  next_reduction_ = 0;
}

void DistributedDataParallel::scale_gradients(double factor) {
  require_gradients("scale_gradients");
  expect(std::isfinite(factor), Status::INVALID_ARGUMENT, "scale_gradients: expected a finite factor, found ", factor);
  require_nothing_in_flight("scale_gradients");
  for_all_buckets([&](Bucket& bucket) { bucket.scale_gradients(factor); });
}

buffer::TensorRange DistributedDataParallel::main_gradient(const std::string& name, DType dtype) const {
  const Place& place = find_trainable(name, "main_gradient");
  const buffer::DBuffer& gradient = place.bucket->main_gradient();
  expect(groups_[place.group].gradients == Gradients::reduced, Status::INVALID_STATE, "main_gradient '", name,
         "': there is none that finish_grad_sync completed since the last zero_grad_buffer");
  expect(dtype == gradient.dtype(), Status::TYPE_MISMATCH, "main_gradient '", name, "': kept as ",
         ostraka::name(gradient.dtype()), ", asked for ", ostraka::name(dtype));
  return gradient.tensor_range(place.tensor);
}

void DistributedDataParallel::offload_grad_buffers() {
  require_gradients("offload_grad_buffers");
  require_nothing_in_flight_anywhere("offload_grad_buffers");
  zero_grad_buffer();
  release_gradients();
  is_offloaded_ = true;
}

// To the system: nothing else lies in their arenas.
void DistributedDataParallel::release_gradients() {
  for (const auto& storage : gradient_storages_)
    storage->release();
  for (const auto& ranks : {dense_, expert_})
    if (ranks != nullptr)
      ranks->gradient_arena->trim();
}

void DistributedDataParallel::restore_grad_buffers() {
  require_finalized("restore_grad_buffers");
  expect(is_offloaded_, Status::INVALID_STATE, "restore_grad_buffers: they are not offloaded");
  resources_->status->communicate([&] {
    start_gathers(0);
    try {
      comm::together(*dense_->communicators.all, [&] {
        for (const auto& storage : gradient_storages_)
          storage->reallocate();
      });
    } catch (const Error&) { // all or nothing
      release_gradients();
      throw;
    }
  });
  is_offloaded_ = false;
  for_all_buckets([](Bucket& bucket) { bucket.clear_gradients(); });
}

// By the mesh's own communicator, whose operations all ranks call in one order.
void DistributedDataParallel::require_nothing_in_flight_anywhere(const char* operation) {
  resources_->status->communicate([&] {
    start_gathers(0);
    comm::together(*mesh()->communicators().all, [&] { require_nothing_in_flight(operation); });
  });
}

void DistributedDataParallel::require_nothing_in_flight(const char* operation) const {
  expect(std::none_of(groups_.begin(), groups_.end(),
                      [](const BucketGroup& group) { return group.gradients == Gradients::reducing; }),
         Status::INVALID_STATE, operation, ": gradients are being reduced; call finish_grad_sync first");
}

void DistributedDataParallel::require_gradients(const char* operation) const {
  require_finalized(operation);
  expect(!is_offloaded_, Status::INVALID_STATE, operation,
         ": gradients are offloaded; call restore_grad_buffers first");
}

} // namespace ostraka::ddp
