// SPDX-License-Identifier: Apache-2.0
// Weights: access, and gathers ahead of use after a step of a sharded optimizer.
#include <ostraka/ddp/distributed_data_parallel.hpp>

#include <algorithm>

namespace ostraka::ddp {

namespace {

using WeightState = BucketGroup::WeightState;

} // namespace

// --- access

void DistributedDataParallel::set_parameter(const std::string& name, const void* data, std::int64_t count,
                                            DType dtype) {
  const Place& place = find(name, "set_parameter");
  expect(dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16, Status::TYPE_MISMATCH, "set_parameter: '",
         name, "': expected f64, f32 or bf16 values, found ", ostraka::name(dtype));
  const layout::Shape& shape = specs_[place.parameter].shape;
  expect(count == layout::numel(shape), Status::SHAPE_MISMATCH, "set_parameter '", name,
         "': ", layout::to_string(shape), " has ", layout::numel(shape), " elements, found ", count);
  expect(data != nullptr || count == 0, Status::INVALID_ARGUMENT, "set_parameter '", name, "': the address is null");
  expect(place.group < 0 || groups_[place.group].weights == WeightState::whole, Status::INVALID_STATE,
         "set_parameter '", name, "': the weights of its bucket are stale or being gathered; call start_param_sync(",
         "force_sync) first");
  place.weights->set(place.tensor, data, count, dtype);
}

void* DistributedDataParallel::parameter(const std::string& name, DType dtype) {
  const Place& place = find(name, "parameter");
  expect(dtype == place.weights->dtype(), Status::TYPE_MISMATCH, "parameter '", name, "': stored as ",
         ostraka::name(place.weights->dtype()), ", asked for ", ostraka::name(dtype));
  make_ready(place);
  expect(place.group < 0 || groups_[place.group].weights == WeightState::whole, Status::INVALID_STATE, "parameter '",
         name, "': the optimizer has changed it and forward hooks are disabled; call start_param_sync first");
  return place.weights->tensor(place.tensor);
}

const DistributedDataParallel::Place& DistributedDataParallel::find(const std::string& name,
                                                                    const char* operation) const {
  require_finalized(operation);
  const auto found = places_.find(name);
  if (found != places_.end())
    return found->second;
  constexpr int shown = 20;
  std::string known;
  for (std::size_t i = 0; i < specs_.size() && i < shown; ++i)
    known += (i == 0 ? "'" : ", '") + specs_[i].name + "'";
  fail(Status::INVALID_ARGUMENT, operation, ": there is no parameter '", name, "'; there are ",
       known.empty() ? "none" : known, specs_.size() > shown ? ", ..." : "");
}

const DistributedDataParallel::Place& DistributedDataParallel::find_trainable(const std::string& name,
                                                                              const char* operation) const {
  const Place& place = find(name, operation);
  expect(place.bucket != nullptr, Status::INVALID_STATE, operation, " '", name, "': the parameter is frozen");
  return place;
}

void DistributedDataParallel::require_finalized(const char* operation) const {
  resources_->status->require_usable();
  expect(is_finalized_, Status::INVALID_STATE, operation, ": call finalize first");
}

// --- gathers

// A gather can only start after those of all groups that a forward pass uses before, so that starts have one order on
// all ranks; groups are gathered from the last to the first.
void DistributedDataParallel::start_gathers(int last, bool force) {
  runtime::Stream& gather = *resources_->gather;
  for (int g = static_cast<int>(groups_.size()) - 1; g >= last; --g) {
    BucketGroup& group = groups_[g];
    if (group.weights == WeightState::stale || (force && group.weights == WeightState::whole)) {
      gather.wait(resources_->compute->record()); // sees what the optimizer wrote
      comm::Launches launches(group.gather_lines, gather, group.buckets.size() > 1);
      for (const auto& bucket : group.buckets)
        bucket->weights().start_gather();
      launches.submit();
      group.gathered = gather.record();
      group.weights = WeightState::gathering;
    }
  }
}

void DistributedDataParallel::finish_gather(int group) {
  if (groups_[group].weights != WeightState::gathering)
    return;
  resources_->compute->wait(groups_[group].gathered);
  resources_->compute->hand_over(); // the caller reads behind what it waits for
  groups_[group].weights = WeightState::whole;
}

void DistributedDataParallel::gather_all(bool force) {
  start_gathers(0, force);
  for (int g = static_cast<int>(groups_.size()) - 1; g >= 0; --g)
    finish_gather(g);
}

void DistributedDataParallel::start_param_sync(bool force_sync, bool force_dispatch) {
  require_finalized("start_param_sync");
  resources_->status->communicate([&] {
    if (force_dispatch)
      gather_all(false); // so that weights are whole on all ranks, and all start as many gathers
    start_gathers(0, force_dispatch && config().sharded_optimizer);
    if (force_sync || !config().overlap_param_gather)
      gather_all(false);
  });
}

void DistributedDataParallel::pre_forward(const std::string& module) {
  require_finalized("pre_forward");
  const auto found = groups_of_module_.find(module);
  expect(found != groups_of_module_.end(), Status::INVALID_ARGUMENT, "pre_forward: no parameter belongs to a module '",
         module, "'");
  if (!has_hooks_)
    return;
  resources_->status->communicate([&] {
    for (const int group : found->second) {
      start_gathers(group);
      finish_gather(group);
      if (group > 0)
        start_gathers(group - 1);
    }
  });
}

void DistributedDataParallel::enable_forward_pre_hook() {
  require_finalized("enable_forward_pre_hook");
  expect(!has_hooks_, Status::INVALID_STATE, "enable_forward_pre_hook: hooks are enabled already");
  has_hooks_ = true;
}

void DistributedDataParallel::disable_forward_pre_hook(bool param_sync) {
  require_finalized("disable_forward_pre_hook");
  expect(has_hooks_, Status::INVALID_STATE, "disable_forward_pre_hook: hooks are disabled already");
  has_hooks_ = false;
  if (param_sync)
    start_param_sync(true);
}

void DistributedDataParallel::ensure_ready(const std::string& name) { make_ready(find(name, "ensure_ready")); }

void DistributedDataParallel::make_ready(const Place& place) {
  if (place.group < 0 || groups_[place.group].weights == WeightState::whole)
    return;
  resources_->status->communicate([&] {
    if (has_hooks_)
      start_gathers(place.group);
    finish_gather(place.group);
  });
}

std::function<void()> DistributedDataParallel::ready_callback(const std::string& name) {
  find(name, "ready_callback");
  return [weak = weak_from_this(), name] {
    if (const auto ddp = weak.lock())
      ddp->ensure_ready(name);
  };
}

void DistributedDataParallel::reset_param_sync_dispatch_state() {
  require_finalized("reset_param_sync_dispatch_state");
  for (const BucketGroup& group : groups_)
    expect(group.weights != WeightState::gathering, Status::INVALID_STATE,
           "reset_param_sync_dispatch_state: weights are being gathered; call start_param_sync(force_sync) first");
  for (BucketGroup& group : groups_)
    for (const auto& bucket : group.buckets)
      if (bucket->weights().is_sharded())
        group.weights = WeightState::stale;
}

void DistributedDataParallel::free_overlap_buffers() {
  require_finalized("free_overlap_buffers");
  resources_->status->communicate([&] {
    for (int g = static_cast<int>(groups_.size()) - 1; g >= 0; --g)
      finish_gather(g);
  });
}

// --- the optimizer

// Gathers that some rank has started are started by all; then no peer reads what the optimizer changes.
void DistributedDataParallel::make_updatable() {
  resources_->status->communicate([&] { gather_all(false); });
}

void DistributedDataParallel::refresh(int group, Bucket& bucket, bool is_model_written) {
  bucket.weights().refresh(is_model_written);
  if (bucket.weights().is_sharded())
    groups_[group].weights = WeightState::stale;
}

void DistributedDataParallel::gather_updated() {
  if (!config().overlap_param_gather)
    resources_->status->communicate([&] { gather_all(false); });
}

std::vector<buffer::NamedState> DistributedDataParallel::named_states() {
  require_finalized("named_states, which an optimizer needs");
  std::vector<buffer::NamedState> states;
  for (int g = 0; g < static_cast<int>(groups_.size()); ++g)
    for (const auto& bucket : groups_[g].buckets)
      states.push_back(named_state(g, bucket));
  return states;
}

std::vector<buffer::NamedState> DistributedDataParallel::all_states() {
  std::vector<buffer::NamedState> states = named_states();
  for (const auto& weights : frozen_) {
    buffer::NamedState state;
    state.main_weight = weights->main();
    state.tensor_names.resize(static_cast<std::size_t>(state.main_weight.layout()->num_tensors()));
    for (const auto& [name, place] : places_)
      if (place.weights == weights.get())
        state.tensor_names[place.tensor] = name;
    states.push_back(std::move(state));
  }
  return states;
}

// Functions that refuse once this object is gone.
buffer::NamedState DistributedDataParallel::named_state(int group, const std::shared_ptr<Bucket>& bucket) {
  const auto owner = [weak = weak_from_this()] {
    const auto ddp = weak.lock();
    expect(ddp != nullptr, Status::INVALID_STATE, "optimizer step: the ddp that owns the weights is destroyed");
    ddp->resources_->status->require_usable();
    return ddp;
  };
  buffer::NamedState state = bucket->named_state();
  state.has_gradient = [owner, group] { return owner()->groups_[group].gradients == BucketGroup::Gradients::reduced; };
  state.gradient_version = [owner] { return owner()->gradient_version_; };
  state.check_update = [owner] { owner(); };
  state.before_update = [owner] { owner()->make_updatable(); };
  state.refresh = [owner, group, bucket] { owner()->refresh(group, *bucket, false); };
  state.publish = [owner, group, bucket] { owner()->refresh(group, *bucket, true); };
  state.after_update = [owner] { owner()->gather_updated(); };
  return state;
}

MemoryReport DistributedDataParallel::memory() const {
  MemoryReport report;
  for (const auto& ranks : {dense_, expert_})
    if (ranks != nullptr) {
      const memory::Arena& arena = *ranks->arena;
      report.parameters += arena.usage(memory::Kind::parameters).in_use;
      report.optimizer_state += arena.usage(memory::Kind::optimizer_state).in_use;
      report.gradients += ranks->gradient_arena->usage(memory::Kind::gradients).in_use;
      report.reserved += arena.reserved() + ranks->gradient_arena->reserved();
    }
  for (const ParameterSpec& spec : specs_)
    report.num_elements += layout::numel(spec.shape);
  return report;
}

} // namespace ostraka::ddp
