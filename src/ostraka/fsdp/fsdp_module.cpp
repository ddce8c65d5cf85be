// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/fsdp/fsdp_module.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <cmath>

namespace ostraka::fsdp {

namespace {

void give_back_free_memory(const Resources& resources) {
  resources.arena->trim();
  if (resources.shared != nullptr)
    resources.shared->arena()->trim();
}

} // namespace

FsdpModule::FsdpModule(FsdpContext& context, std::string name, std::string full_name, FsdpModule* parent, int id)
    : context_(context), name_(std::move(name)), full_name_(std::move(full_name)), parent_(parent), id_(id),
      prefetch_(context.config().prefetch) {}

// --- set-up

FsdpModule& FsdpModule::add_module(std::string name) { return context_.add_module(std::move(name), this); }

void FsdpModule::check_parameter_name(const std::string& parameter) const {
  expect(!parameter.empty(), Status::INVALID_ARGUMENT, "module '", full_name_, "': a parameter name is empty");
  expect(!has_parameter(parameter), Status::INVALID_ARGUMENT, "module '", full_name_, "': parameter '", parameter,
         "' exists already");
}

void FsdpModule::add_parameter(ParameterSpec spec) {
  expect(!is_built_, Status::INVALID_STATE, "module '", full_name_, "': add_parameter('", spec.name, "') after build");
  check_not_finalized("add_parameter");
  check_parameter_name(spec.name);
  expect(spec.dtype == DType::f64 || spec.dtype == DType::f32 || spec.dtype == DType::bf16, Status::TYPE_MISMATCH,
         "module '", full_name_, "', parameter '", spec.name, "': expected a storage type of f64, f32 or bf16, found ",
         ostraka::name(spec.dtype));
  layout::numel(spec.shape); // refuses negative extents and overflow here, where the name is known
  declared_.push_back(std::move(spec));
  needs_build_ = true;
}

void FsdpModule::tie_parameter(const std::string& parameter, const std::string& existing) {
  expect(!is_built_, Status::INVALID_STATE, "module '", full_name_, "': tie_parameter('", parameter, "') after build");
  check_parameter_name(parameter);
  if (!has_parameter(existing))
    if (const FsdpModule* owner = context_.owner_of(existing))
      fail(Status::INVALID_ARGUMENT, "module '", full_name_, "': tie_parameter('", parameter, "', '", existing,
           "'): owned by module '", owner->full_name_, "'; a tied parameter has one owner");
  ties_[parameter] = spec(existing).name;
}

void FsdpModule::set_allow_unused(bool allow) {
  check_not_finalized("set_allow_unused");
  allows_unused_ = allow;
}

void FsdpModule::set_prefetch(std::optional<std::int64_t> elements) {
  check_not_finalized("set_prefetch");
  expect(!elements || *elements >= 0, Status::INVALID_ARGUMENT, "set_prefetch of module '", full_name_,
         "': expected elements >= 0, or none, found ", elements.value_or(0));
  prefetch_ = elements;
}

void FsdpModule::set_gradient_divisor(double divisor) {
  check_not_finalized("set_gradient_divisor");
  expect(std::isfinite(divisor) && divisor > 0, Status::INVALID_ARGUMENT, "set_gradient_divisor of module '",
         full_name_, "': expected a finite divisor > 0, found ", divisor);
  gradient_divisor_ = divisor;
  for (const auto& group : groups_)
    group->set_gradient_divisor(divisor);
}

std::int64_t FsdpModule::hash_of(std::size_t parameter) const {
  if (parameter >= declared_.size())
    return -1;
  const ParameterSpec& spec = declared_[parameter];
  Hash hash;
  hash.add(spec.name).add(spec.dtype).add(spec.trainable).add(spec.shape.size());
  for (const std::int64_t extent : spec.shape)
    hash.add(extent);
  return hash.value();
}

// One comparison where all is well; else they are compared one by one, to name the first that differs.
void FsdpModule::check_ranks_agree() const {
  comm::Communicator& all = *context_.resources_->communicators.all;
  Hash hash;
  hash.add(full_name_);
  for (std::size_t i = 0; i < declared_.size(); ++i)
    hash.add(hash_of(i));
  for (const auto& [tied, existing] : ties_)
    hash.add(tied).add(existing);
  const Precision types = precision();
  for (const std::optional<DType>& dtype : {types.main_dtype, types.compute_dtype, types.reduction_dtype})
    hash.add(dtype ? static_cast<std::int32_t>(*dtype) : -1);
  if (comm::are_equal(all, hash.value()))
    return;
  const std::string what = "build of module '" + full_name_ + "': ";
  const auto count = static_cast<std::size_t>(comm::largest(all, static_cast<std::int64_t>(declared_.size())));
  for (std::size_t i = 0; i < count; ++i) {
    std::string text = "nothing";
    if (i < declared_.size())
      text = "'" + declared_[i].name + "' " + layout::to_string(declared_[i].shape) + " " +
             ostraka::name(declared_[i].dtype) + (declared_[i].trainable ? " trainable" : " frozen");
    comm::agree_on_value(all, hash_of(i), what + "parameter " + std::to_string(i) + " (here " + text + ")");
  }
  comm::agree_on_value(all, hash.value(), what + "the module's name, its types or its tied parameters");
}

void FsdpModule::set_precision(const Precision& precision) {
  expect(!is_built_, Status::INVALID_STATE, "module '", full_name_, "': set_precision after build");
  check_not_finalized("set_precision");
  validate(precision, "module '" + full_name_ + "'");
  precision_ = precision;
}

void FsdpModule::build() {
  expect(!is_built_, Status::INVALID_STATE, "module '", full_name_, "': build was called twice");
  check_not_finalized("build");
  context_.status_.communicate([&] {
    comm::Communicator& all = *context_.resources_->communicators.all;
    check_ranks_agree();
    std::vector<std::shared_ptr<ParameterGroup>> groups;
    try {
      for (auto& specs :
           grouped(declared_)) // one by one, so that a failure leaves the same regions of shared memory on all ranks
        comm::together(all, [&] { groups.push_back(make_group(std::move(specs))); });
    } catch (const Error& error) {
      declared_.clear();
      ties_.clear();
      groups.clear();
      if (!context_.status_.is_terminal(error)) // together: nobody builds again in memory that others give back
        comm::together(all, [&] { give_back_free_memory(*context_.resources_); });
      throw;
    }
    groups_ = std::move(groups);
    is_built_ = true;
  });
}

Precision FsdpModule::precision() const { return precision_of(precision_, context_.config()); }

std::shared_ptr<ParameterGroup> FsdpModule::make_group(std::vector<ParameterSpec> specs) {
  auto group = std::make_shared<ParameterGroup>(context_.resources_, full_name_, std::move(specs), precision());
  group->set_gradient_divisor(gradient_divisor_);
  const auto require_open = [resources = context_.resources_] {
    expect(resources->is_open, Status::INVALID_STATE, "optimizer: the context of its parameters is destroyed");
  };
  group->check_not_in_use = [this, require_open] {
    require_open();
    context_.status_.require_usable();
    check_not_in_use("update");
  };
  group->communicate = [this, require_open](const std::function<void()>& body) {
    require_open();
    context_.status_.communicate(body);
  };
  return group;
}

void FsdpModule::check_values(const Place& place, std::int64_t count, DType dtype, const char* operation) const {
  const layout::Shape& shape = place.group->specs()[place.index].shape;
  const std::string name = place.group->full_name(place.index);
  expect(count == layout::numel(shape), Status::SHAPE_MISMATCH, operation, ": '", name, "' ", layout::to_string(shape),
         " has ", layout::numel(shape), " elements, found ", count);
  expect(dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16, Status::TYPE_MISMATCH, operation, ": '",
         name, "': expected f64, f32 or bf16 values, found ", ostraka::name(dtype));
}

void FsdpModule::set_parameter(const std::string& parameter, const void* data, std::int64_t count, DType dtype) {
  const Place place = find(parameter);
  check_not_in_use("set_parameter");
  check_published("set_parameter");
  check_values(place, count, dtype, "set_parameter");
  context_.status_.communicate([&] { place.group->weights().set(place.index, data, count, dtype); });
}

void FsdpModule::set_from_root(const std::string& parameter, const void* data, std::int64_t count, DType dtype,
                               int root) {
  context_.status_.communicate([&] {
    comm::Communicator& all = *context_.resources_->communicators.all;
    std::shared_ptr<memory::Storage> values;
    std::optional<Place> place;
    comm::together(all, [&] {
      place = find(parameter);
      check_not_in_use("set_from_root");
      check_published("set_from_root");
      check_values(*place, count, dtype, "set_from_root");
      expect(root >= 0 && root < all.size(), Status::INVALID_ARGUMENT, "set_from_root: expected a root from 0 to ",
             all.size() - 1, ", found ", root);
      expect(data != nullptr || count == 0 || root != all.rank(), Status::INVALID_ARGUMENT,
             "set_from_root: the data of '", place->group->full_name(place->index), "' is null on the root");
      values =
          std::make_shared<memory::Storage>(memory::make_host_arena(), count * size_of(dtype), memory::Kind::other);
    });
    const std::string name = place->group->full_name(place->index);
    comm::agree_on_value(all, Hash().add(name).add(dtype).add(root).value(), "set_from_root of '" + name + "'");
    if (root == all.rank())
      std::copy_n(static_cast<const std::byte*>(data), values->bytes(), values->data());
    all.broadcast(*runtime::compute_stream(runtime::Device::host), {values, 0}, values->bytes(), root);
    place->group->weights().set(place->index, values->data(), count, dtype);
  });
}

void FsdpModule::initialise(const std::string& parameter, const Fill& fill) {
  const Place place = find(parameter);
  check_not_in_use("initialise");
  check_published("initialise");
  expect(fill != nullptr, Status::INVALID_ARGUMENT, "initialise of '", place.group->full_name(place.index),
         "': the function is empty");
  context_.status_.communicate([&] { place.group->weights().initialise(place.index, fill); });
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
  const bool is_unhooked = uses_.phase != Phase::backward && uses_.is_pinned && !context_.is_in_inference_;
  if (!is_unhooked)
    require_phase(Phase::backward, "gradient");
  expect(group->is_trainable(), Status::INVALID_STATE, "gradient '", group->full_name(index),
         "': the parameter is frozen");
  expect(dtype == group->gradient_dtype(), Status::TYPE_MISMATCH, "gradient '", group->full_name(index), "': taken as ",
         ostraka::name(group->gradient_dtype()), ", asked for ", ostraka::name(dtype));
  if (is_unhooked)
    check_can_accumulate(); // as pre_backward does
  ParameterGroup::Gradient place{};
  context_.status_.communicate([&, group = group, index = index] {
    place = group->gradient(index);
    context_.resources_->compute->hand_over(); // the caller writes behind what it waits for
  });
  writes_unhooked_ = writes_unhooked_ || is_unhooked;
  return {place.data, place.accumulate ? 1.0 : 0.0};
}

buffer::TensorRange FsdpModule::main_gradient(const std::string& parameter, DType dtype) const {
  const auto [group, index] = find(parameter);
  expect(group->is_trainable(), Status::INVALID_STATE, "main_gradient '", group->full_name(index),
         "': the parameter is frozen");
  expect(!group->is_updated(), Status::INVALID_STATE, "main_gradient '", group->full_name(index),
         "': it went into the weights while it was reduced");
  expect(group->has_gradient(), Status::INVALID_STATE, "main_gradient '", group->full_name(index),
         "': there is none that finish_backward completed since the last zero_grad");
  expect(dtype == group->main_dtype(), Status::TYPE_MISMATCH, "main_gradient '", group->full_name(index), "': kept as ",
         ostraka::name(group->main_dtype()), ", asked for ", ostraka::name(dtype));
  return group->main_gradient().tensor_range(index);
}

bool FsdpModule::has_parameter(const std::string& parameter) const {
  return ties_.contains(parameter) || std::any_of(declared_.begin(), declared_.end(),
                                                  [&](const ParameterSpec& spec) { return spec.name == parameter; });
}

const ParameterSpec& FsdpModule::spec(const std::string& parameter) const {
  const auto tie = ties_.find(parameter);
  const std::string& first_name = tie != ties_.end() ? tie->second : parameter;
  const auto found = std::find_if(declared_.begin(), declared_.end(),
                                  [&](const ParameterSpec& spec) { return spec.name == first_name; });
  if (found != declared_.end())
    return *found;
  std::string known;
  for (const ParameterSpec& declared : declared_)
    known += (known.empty() ? "'" : ", '") + declared.name + "'";
  fail(Status::INVALID_ARGUMENT, "module '", full_name_, "' has no parameter '", parameter, "'; it has ",
       known.empty() ? "none" : known);
}

// --- inside

FsdpModule::Place FsdpModule::find(const std::string& parameter) const {
  const std::string& first_name = spec(parameter).name; // throws for an unknown name
  expect(is_built_, Status::INVALID_STATE, "module '", full_name_, "': parameter '", parameter,
         "' has no memory before build");
  for (const auto& group : groups_)
    for (std::size_t i = 0; i < group->specs().size(); ++i)
      if (group->specs()[i].name == first_name)
        return {group.get(), static_cast<int>(i)};
  fail(Status::INTERNAL, "module '", full_name_, "': parameter '", parameter, "' is in no group");
}

void FsdpModule::check_not_finalized(const char* operation) const {
  expect(!context_.is_finalized_, Status::INVALID_STATE, operation, " of module '", full_name_,
         "': the context is finalised; call it before");
}

void FsdpModule::require_phase(Phase expected, const char* operation) const {
  const char* next_step = uses_.phase == Phase::forward    ? "call post_forward first"
                          : uses_.phase == Phase::backward ? "call post_backward first"
                          : expected == Phase::backward    ? "call pre_backward first"
                                                           : "call pre_forward first";
  expect(uses_.phase == expected, Status::INVALID_STATE, operation, " of module '", full_name_, "': expected the ",
         fsdp::name(expected), " phase, found ", fsdp::name(uses_.phase), "; ", next_step);
}

bool FsdpModule::is_readable() const {
  return uses_.phase != Phase::resting || uses_.is_pinned || context_.is_in_inference_;
}

void FsdpModule::check_published(const char* operation) const {
  expect(!is_updated(), Status::INVALID_STATE, operation, " of module '", full_name_,
         "': its weights were updated while gradients were reduced; call the optimizer's step first");
}

bool FsdpModule::is_updated() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->is_updated(); });
}

void FsdpModule::check_not_in_use(const char* operation) const {
  expect(!is_readable(), Status::INVALID_STATE, operation, ": the weights of module '", full_name_, "' are in use (",
         context_.is_in_inference_ ? "inference"
         : uses_.is_pinned         ? "unshard without reshard"
                                   : fsdp::name(uses_.phase),
         ")");
}

bool FsdpModule::is_trainable() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->is_trainable(); });
}

ModuleNeeds FsdpModule::needs() const {
  ModuleNeeds needs;
  needs.prefetch = prefetch_;
  for (const auto& group : groups_)
    needs.add(group->plan());
  return needs;
}

} // namespace ostraka::fsdp
