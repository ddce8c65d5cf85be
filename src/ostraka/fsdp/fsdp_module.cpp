// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/fsdp/fsdp_module.hpp>

#include <algorithm>

namespace ostraka::fsdp {

const char* name(FsdpModule::Phase phase) {
  switch (phase) {
  case FsdpModule::Phase::resting:
    return "resting";
  case FsdpModule::Phase::forward:
    return "forward";
  case FsdpModule::Phase::backward:
    return "backward";
  }
  return "unknown";
}

namespace {

void give_back_free_memory(const Resources& resources) {
  resources.arena->trim();
  if (resources.shared != nullptr)
    resources.shared->arena()->trim();
}

} // namespace

FsdpModule::FsdpModule(FsdpContext& context, std::string name, int id)
    : context_(context), name_(std::move(name)), id_(id) {}

// --- set-up

void FsdpModule::add_parameter(ParameterSpec spec) {
  expect(!is_built_, Status::INVALID_STATE, "module '", name_, "': add_parameter('", spec.name, "') after build");
  expect(!spec.name.empty(), Status::INVALID_ARGUMENT, "module '", name_, "': a parameter name is empty");
  expect(spec.dtype == DType::f64 || spec.dtype == DType::f32 || spec.dtype == DType::bf16, Status::TYPE_MISMATCH,
         "module '", name_, "', parameter '", spec.name, "': expected a storage type of f64, f32 or bf16, found ",
         ostraka::name(spec.dtype));
  const bool exists = std::any_of(declared_.begin(), declared_.end(),
                                  [&](const ParameterSpec& other) { return other.name == spec.name; });
  expect(!exists, Status::INVALID_ARGUMENT, "module '", name_, "': parameter '", spec.name, "' exists already");
  layout::numel(spec.shape); // refuses negative extents and overflow here, where the name is known
  declared_.push_back(std::move(spec));
}

void FsdpModule::set_precision(const Precision& precision) {
  expect(!is_built_, Status::INVALID_STATE, "module '", name_, "': set_precision after build");
  validate(precision, "module '" + name_ + "'");
  precision_ = precision;
}

void FsdpModule::build() {
  expect(!is_built_, Status::INVALID_STATE, "module '", name_, "': build was called twice");
  Hash hash;
  hash.add(name_);
  for (const ParameterSpec& spec : declared_) {
    hash.add(spec.name).add(spec.dtype).add(spec.trainable).add(spec.shape.size());
    for (const std::int64_t extent : spec.shape)
      hash.add(extent);
  }
  const Precision types = precision();
  for (const std::optional<DType>& dtype : {types.main_dtype, types.compute_dtype, types.reduction_dtype})
    hash.add(dtype ? static_cast<std::int32_t>(*dtype) : -1);
  context_.communicate([&] {
    comm::Communicator& all = *context_.resources_->communicators.all;
    comm::agree_on_value(all, hash.value(), "build of module '" + name_ + "': names, shapes and types of parameters");
    std::vector<std::vector<ParameterSpec>> grouped;
    for (const ParameterSpec& spec : declared_) {
      auto same = std::find_if(grouped.begin(), grouped.end(), [&](const auto& group) {
        return group.front().dtype == spec.dtype && group.front().trainable == spec.trainable;
      });
      if (same == grouped.end())
        same = grouped.insert(grouped.end(), std::vector<ParameterSpec>{});
      same->push_back(spec);
    }
    std::vector<std::shared_ptr<ParameterGroup>> groups;
    try {
      for (auto& specs : grouped) // one by one, so that a failure leaves the same regions of shared memory on all ranks
        comm::together(all, [&] { groups.push_back(make_group(std::move(specs))); });
    } catch (const Error& error) {
      declared_.clear();
      groups.clear();
      if (!context_.is_terminal(error)) // together: nobody builds again in memory that others give back
        comm::together(all, [&] { give_back_free_memory(*context_.resources_); });
      throw;
    }
    groups_ = std::move(groups);
    is_built_ = true;
  });
}

// What is not set here is the context's.
Precision FsdpModule::precision() const {
  const Precision& context = context_.config();
  const auto or_context = [](std::optional<DType> own, std::optional<DType> other) { return own ? own : other; };
  return {or_context(precision_.main_dtype, context.main_dtype),
          or_context(precision_.compute_dtype, context.compute_dtype),
          or_context(precision_.reduction_dtype, context.reduction_dtype)};
}

std::shared_ptr<ParameterGroup> FsdpModule::make_group(std::vector<ParameterSpec> specs) {
  auto group = std::make_shared<ParameterGroup>(context_.resources_, name_, std::move(specs), precision());
  const auto require_open = [resources = context_.resources_] {
    expect(resources->is_open, Status::INVALID_STATE, "optimizer: the context of its parameters is destroyed");
  };
  group->check_not_in_use = [this, require_open] {
    require_open();
    context_.require_usable();
    check_not_in_use("update");
  };
  group->communicate = [this, require_open](const std::function<void()>& body) {
    require_open();
    context_.communicate(body);
  };
  return group;
}

void FsdpModule::set_parameter(const std::string& parameter, const void* data, std::int64_t count, DType dtype) {
  const Place place = find(parameter);
  check_not_in_use("set_parameter");
  const std::int64_t expected = layout::numel(place.group->specs()[place.index].shape);
  expect(count == expected, Status::SHAPE_MISMATCH, "set_parameter: '", place.group->full_name(place.index), "' ",
         layout::to_string(place.group->specs()[place.index].shape), " has ", expected, " elements, found ", count);
  expect(dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16, Status::TYPE_MISMATCH, "set_parameter: '",
         place.group->full_name(place.index), "': expected f64, f32 or bf16 values, found ", ostraka::name(dtype));
  context_.communicate([&] { place.group->weights().set(place.index, data, count, dtype); });
}

// --- hooks

void FsdpModule::pre_forward() {
  context_.require_finalized("pre_forward of module '" + name_ + "'");
  require_phase(Phase::resting, "pre_forward");
  expect(!context_.backward_order_.has_started() || context_.is_draining_, Status::INVALID_STATE,
         "pre_forward of module '", name_,
         "': a backward pass has begun; call finish_backward after the backward pass of each micro-batch");
  if (!context_.is_in_inference_)
    context_.communicate([&] {
      unshard_groups();
      wait_unsharded();
      context_.forward_order_.visit(id_);
      context_.prefetch(context_.forward_order_);
      ++forward_uses_;
    });
  open(Phase::forward);
}

void FsdpModule::post_forward() {
  require_phase(Phase::forward, "post_forward");
  close();
  if (!context_.is_in_inference_ && !is_pinned_)
    context_.communicate([&] { reshard_groups(); });
}

void FsdpModule::pre_backward() {
  context_.require_finalized("pre_backward of module '" + name_ + "'");
  require_phase(Phase::resting, "pre_backward");
  expect(!context_.is_in_inference_, Status::INVALID_STATE, "pre_backward of module '", name_,
         "': not allowed between begin_inference and end_inference");
  expect(backward_uses_ < forward_uses_, Status::INVALID_STATE, "pre_backward of module '", name_,
         "': it has no forward pass to go back through (", forward_uses_, " forward and ", backward_uses_,
         " backward passes since the last finish_backward)");
  for (const auto& group : groups_)
    group->check_can_accumulate();
  context_.communicate([&] {
    unshard_groups();
    wait_unsharded();
    context_.backward_order_.visit(id_);
    context_.prefetch(context_.backward_order_);
  });
  open(Phase::backward);
}

void FsdpModule::post_backward() {
  require_phase(Phase::backward, "post_backward");
  close();
  ++backward_uses_;
  context_.communicate([&] {
    if (!is_pinned_)
      reshard_groups();
    if (backward_uses_ == forward_uses_)
      complete_gradients();
  });
}

void FsdpModule::unshard() {
  context_.require_finalized("unshard of module '" + name_ + "'");
  context_.communicate([&] {
    unshard_groups();
    wait_unsharded();
  });
  is_pinned_ = true;
}

void FsdpModule::reshard() {
  expect(is_pinned_, Status::INVALID_STATE, "reshard of module '", name_, "': it was not unsharded");
  is_pinned_ = false;
  if (phase_ == Phase::resting && !context_.is_in_inference_)
    context_.communicate([&] { reshard_groups(); });
}

// --- access

const void* FsdpModule::parameter(const std::string& parameter, DType dtype) const {
  const auto [group, index] = find(parameter);
  expect(is_readable(), Status::INVALID_STATE, "parameter '", group->full_name(index),
         "': its weights are sharded now; read them between pre_forward and post_forward or pre_backward and "
         "post_backward");
  expect(dtype == group->compute_dtype(), Status::TYPE_MISMATCH, "parameter '", group->full_name(index),
         "': handed out as ", ostraka::name(group->compute_dtype()), ", asked for ", ostraka::name(dtype));
  return group->weights().whole(index);
}

FsdpModule::Gradient FsdpModule::gradient(const std::string& parameter, DType dtype) {
  const auto [group, index] = find(parameter);
  require_phase(Phase::backward, "gradient");
  expect(group->is_trainable(), Status::INVALID_STATE, "gradient '", group->full_name(index),
         "': the parameter is frozen");
  expect(dtype == group->gradient_dtype(), Status::TYPE_MISMATCH, "gradient '", group->full_name(index), "': taken as ",
         ostraka::name(group->gradient_dtype()), ", asked for ", ostraka::name(dtype));
  ParameterGroup::Gradient place{};
  context_.communicate([&, group = group, index = index] { place = group->gradient(index); });
  return {place.data, place.accumulate ? 1.0 : 0.0};
}

buffer::TensorRange FsdpModule::main_gradient(const std::string& parameter, DType dtype) const {
  const auto [group, index] = find(parameter);
  expect(group->is_trainable(), Status::INVALID_STATE, "main_gradient '", group->full_name(index),
         "': the parameter is frozen");
  expect(group->has_gradient(), Status::INVALID_STATE, "main_gradient '", group->full_name(index),
         "': there is none that finish_backward completed since the last zero_grad");
  expect(dtype == group->main_dtype(), Status::TYPE_MISMATCH, "main_gradient '", group->full_name(index), "': kept as ",
         ostraka::name(group->main_dtype()), ", asked for ", ostraka::name(dtype));
  return group->main_gradient().tensor_range(index);
}

const ParameterSpec& FsdpModule::spec(const std::string& parameter) const {
  const auto found = std::find_if(declared_.begin(), declared_.end(),
                                  [&](const ParameterSpec& spec) { return spec.name == parameter; });
  if (found != declared_.end())
    return *found;
  std::string known;
  for (const ParameterSpec& declared : declared_)
    known += (known.empty() ? "'" : ", '") + declared.name + "'";
  fail(Status::INVALID_ARGUMENT, "module '", name_, "' has no parameter '", parameter, "'; it has ",
       known.empty() ? "none" : known);
}

// --- inside

FsdpModule::Place FsdpModule::find(const std::string& parameter) const {
  spec(parameter); // throws for an unknown name
  expect(is_built_, Status::INVALID_STATE, "module '", name_, "': parameter '", parameter,
         "' has no memory before build");
  for (const auto& group : groups_)
    for (std::size_t i = 0; i < group->specs().size(); ++i)
      if (group->specs()[i].name == parameter)
        return {group.get(), static_cast<int>(i)};
  fail(Status::INTERNAL, "module '", name_, "': parameter '", parameter, "' is in no group");
}

void FsdpModule::require_phase(Phase expected, const char* operation) const {
  const char* next_step = phase_ == Phase::forward      ? "call post_forward first"
                          : phase_ == Phase::backward   ? "call post_backward first"
                          : expected == Phase::backward ? "call pre_backward first"
                                                        : "call pre_forward first";
  expect(phase_ == expected, Status::INVALID_STATE, operation, " of module '", name_, "': expected the ",
         fsdp::name(expected), " phase, found ", fsdp::name(phase_), "; ", next_step);
}

void FsdpModule::open(Phase phase) {
  phase_ = phase;
  context_.open_modules_.push_back(this);
}

void FsdpModule::close() {
  phase_ = Phase::resting;
  std::erase(context_.open_modules_, this);
}

bool FsdpModule::is_readable() const { return phase_ != Phase::resting || is_pinned_ || context_.is_in_inference_; }

void FsdpModule::check_not_in_use(const char* operation) const {
  expect(!is_readable(), Status::INVALID_STATE, operation, ": the weights of module '", name_, "' are in use (",
         context_.is_in_inference_ ? "inference"
         : is_pinned_              ? "unshard without reshard"
                                   : fsdp::name(phase_),
         ")");
}

void FsdpModule::unshard_groups() {
  for (const auto& group : groups_)
    group->weights().unshard();
}

void FsdpModule::wait_unsharded() {
  for (const auto& group : groups_)
    group->weights().wait_unsharded();
}

void FsdpModule::reshard_groups() {
  for (const auto& group : groups_) {
    if (group->weights().were_written())
      context_.record_failure(Error(Status::INVALID_STATE, "weights of '" + group->full_name(0) +
                                                               "' and its like were written while module '" + name_ +
                                                               "' was in use; they are read-only"));
    group->weights().reshard();
  }
}

void FsdpModule::complete_gradients() {
  for (const auto& group : groups_) {
    if (!group->is_trainable())
      continue;
    const auto missing = group->missing_gradients();
    if (!missing.empty() && !context_.is_draining_)
      context_.record_failure(Error(Status::INVALID_STATE, "post_backward of module '" + name_ + "': parameter '" +
                                                               missing.front() +
                                                               "' got no gradient; ask for it and write it, or "
                                                               "declare the parameter frozen"));
    group->reduce_gradient(context_.is_last_microbatch_);
  }
}

void FsdpModule::finish_microbatch() {
  phase_ = Phase::resting;
  forward_uses_ = backward_uses_ = 0;
  if (!is_pinned_)
    reshard_groups(); // gathered ahead, but not used
  for (const auto& group : groups_)
    group->finish_reduction();
}

} // namespace ostraka::fsdp
