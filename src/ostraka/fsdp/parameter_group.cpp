// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/fsdp/parameter_group.hpp>

#include <algorithm>

namespace ostraka::fsdp {

namespace {

using buffer::DBuffer;
using memory::Kind;

} // namespace

ParameterGroup::ParameterGroup(std::shared_ptr<Resources> resources, std::string module_name,
                               std::vector<ParameterSpec> specs, const Precision& precision)
    : resources_(std::move(resources)), module_name_(std::move(module_name)), specs_(std::move(specs)),
      plan_(plan_group(specs_, precision, resources_->placements, resources_->mesh->size(), module_name_)),
      rules_(plan_), written_(specs_.size(), 0), written_this_pass_(specs_.size(), 0) {
  const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
  const RecipePlacements& placements = resources_->placements;
  const std::string name =
      full_name(0) + (specs_.size() > 1 ? " and " + std::to_string(specs_.size() - 1) + " more" : "");
  weights_ = make_weights(resources_, plan_, name);
  if (!is_trainable())
    return;
  accumulated_ = DBuffer(mesh, placements.gradient, plan_.layout, plan_.types.main, {arena, Kind::gradients});
  accumulated_.set_name("gradient of " + name);
  main_gradient_ = accumulated_.view(placements.optimizer);
  if (plan_.has_persistent_partial)
    partial_ = accumulated_;
}

// --- gradients

void ParameterGroup::check_can_accumulate() const {
  expect(!is_updated(), Status::INVALID_STATE, "module '", module_name_,
         "': its weights were updated while gradients were reduced; call the optimizer's step first");
  expect(!rules_.is_reduced_at_the_end() || !rules_.has_gradient(), Status::INVALID_STATE, "module '", module_name_,
         "': its gradient is already reduced over the ranks; call zero_grad before the next backward pass, or say "
         "set_last_microbatch(false) before all but the last");
}

void ParameterGroup::bind_slot() {
  slot_ = resources_->slots.acquire(*resources_->compute);
  const layout::Placements whole(resources_->mesh->dims(), layout::partial(resources_->config.reduction));
  partial_ = DBuffer::from_storage(resources_->slots.storage(*slot_), resources_->mesh, whole, plan_.layout,
                                   plan_.gradient_dtype);
  partial_.set_name(*main_gradient_.name());
  buffer::clear_padding(partial_, *resources_->compute);
}

ParameterGroup::Gradient ParameterGroup::gradient(int index) {
  rules_.bind(*this);
  const bool holds_contributions = written_[index] != 0;
  written_[index] = written_this_pass_[index] = 1;
  return {partial_.tensor_range(index).data, holds_contributions};
}

std::vector<std::string> ParameterGroup::missing_gradients() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (written_this_pass_[i] == 0)
      names.push_back(specs_[i].name);
  return names;
}

bool ParameterGroup::begin_reduction(bool is_last_microbatch) {
  const bool may_update = consumer_ && !weights_->is_unsharded(); // else somebody may still read the weights
  const bool is_due = rules_.begin(*this, is_last_microbatch, may_update, gradient_divisor_ != 1);
  if (!is_due)
    std::fill(written_.begin(), written_.end(), 1);
  return is_due;
}

void ParameterGroup::end_reduction() {
  rules_.end(*this);
  is_reducing_ = true;
}

// When results arrive all ranks have shown their gradients, and let the weights go before; a rank that failed reads
// none.
comm::Consumer ParameterGroup::update_of_weights() {
  return [self = shared_from_this()](const runtime::Execution& execution, std::int64_t first, std::int64_t count,
                                     const void* values) {
    if (first == 0)
      self->weights_->begin_update_after_reads();
    self->consumer_(execution, first, count, values);
  };
}

void ParameterGroup::publish(bool is_model_written) {
  weights_->refresh(is_model_written);
  rules_.publish();
}

// --- what the rules ask for

DBuffer& ParameterGroup::buffer(GradientPart part) {
  switch (part) {
  case GradientPart::partial:
    return partial_;
  case GradientPart::accumulated:
    return accumulated_;
  case GradientPart::main:
    return main_gradient_;
  default:
    return addend_;
  }
}

void ParameterGroup::release_slot() {
  resources_->slots.release(*slot_, resources_->reduce->record());
  slot_.reset();
}

void ParameterGroup::clear_unwritten() {
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (written_[i] == 0)
      buffer::clear_tensor(partial_, static_cast<int>(i), *resources_->compute);
  std::fill(written_this_pass_.begin(), written_this_pass_.end(), 0);
  std::fill(written_.begin(), written_.end(), 0);
}

void ParameterGroup::reduce_after_compute() { resources_->reduce->wait(resources_->compute->record()); }

void ParameterGroup::take_addend() {
  if (!addend_.is_valid())
    addend_ = DBuffer(resources_->mesh, resources_->placements.gradient, plan_.layout, plan_.gradient_dtype,
                      {resources_->arena, Kind::gradients});
}

void ParameterGroup::redistribute(GradientPart from, GradientPart to, bool updates) {
  runtime::Stream& reduce = *resources_->reduce;
  if (updates)
    buffer::redistribute(buffer(from), buffer(to), reduce, resources_->communicators, update_of_weights());
  else
    buffer::redistribute(buffer(from), buffer(to), reduce, resources_->communicators);
}

void ParameterGroup::divide(GradientPart part) {
  buffer::scale(1 / gradient_divisor_, buffer(part), *resources_->reduce);
}

void ParameterGroup::convert_addend() { buffer::cast(addend_, accumulated_, *resources_->reduce); }

void ParameterGroup::clear_accumulated() { buffer::fill_zero(accumulated_, *resources_->reduce); }

void ParameterGroup::add_addend() {
  buffer::accumulate(1 / gradient_divisor_, addend_, accumulated_, *resources_->reduce);
}

void ParameterGroup::zero_grad() {
  rules_.zero();
  std::fill(written_.begin(), written_.end(), 0);
}

buffer::NamedState ParameterGroup::named_state() {
  buffer::NamedState state;
  for (std::size_t i = 0; i < specs_.size(); ++i)
    state.tensor_names.push_back(full_name(static_cast<int>(i)));
  state.main_weight = weights_->main();
  if (!weights_->model().is_alias_of(weights_->main()))
    state.model_weight = weights_->model();
  state.main_gradient = main_gradient_;
  const auto self = shared_from_this();
  state.has_gradient = [self] { return self->has_gradient(); };
  state.gradient_version = [self] { return self->rules_.version(); };
  state.check_update = [self] { self->check_not_in_use(); };
  state.before_update = [self] { self->communicate([&] { self->weights_->begin_update(); }); };
  state.refresh = [self] { self->communicate([&] { self->publish(false); }); };
  state.publish = [self] { self->communicate([&] { self->publish(true); }); };
  state.update_while_reducing = [self](comm::Consumer consumer) {
    expect(!consumer || !self->consumer_, Status::INVALID_STATE, "fuse_with_reduction: another optimizer updates '",
           self->full_name(0), "' while its gradient is reduced; destroy that one first");
    self->consumer_ = std::move(consumer);
  };
  state.is_updated = [self] { return self->is_updated(); };
  return state;
}

} // namespace ostraka::fsdp
