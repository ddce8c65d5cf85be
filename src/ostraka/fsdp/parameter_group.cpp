// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/fsdp/parameter_group.hpp>
#include <ostraka/layout/builders.hpp>

#include <algorithm>

namespace ostraka::fsdp {

namespace {

using buffer::DBuffer;
using memory::Kind;

DType wide(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }

// Tensors at 64 bytes and segments at 16, in elements of the smallest type that this layout is used with.
layout::Alignment alignment_of(DType storage, DType compute, DType main) {
  const std::int64_t smallest = std::min({size_of(storage), size_of(compute), size_of(main)});
  return {64 / smallest, 16 / smallest};
}

buffer::LayoutPtr plan_layout(const std::vector<ParameterSpec>& specs, int segments,
                              const layout::Alignment& alignment) {
  std::vector<layout::Shape> shapes;
  for (const ParameterSpec& spec : specs)
    shapes.push_back(spec.shape);
  return std::make_shared<layout::GlobalLayout>(layout::build_flat(std::move(shapes), segments, alignment));
}

} // namespace

ParameterGroup::ParameterGroup(std::shared_ptr<Resources> resources, std::string module_name,
                               std::vector<ParameterSpec> specs, const Precision& precision)
    : resources_(std::move(resources)), module_name_(std::move(module_name)), specs_(std::move(specs)),
      compute_dtype_(precision.compute_dtype.value_or(wide(specs_.front().dtype))),
      gradient_dtype_(precision.reduction_dtype.value_or(wide(specs_.front().dtype))), written_(specs_.size(), 0),
      written_this_pass_(specs_.size(), 0) {
  const DType storage = specs_.front().dtype;
  const DType main = precision.main_dtype.value_or(wide(storage));
  expect(
      !has_persistent_partial() || main == gradient_dtype_, Status::NOT_SUPPORTED, "module '", module_name_,
      "': micro-batches add up in the main gradient itself where it is Partial on all axes (no_shard, zero_1), so the "
      "main type must be ",
      name(gradient_dtype_), ", found ", name(main));
  const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
  const RecipePlacements& placements = resources_->placements;
  layout_ = plan_layout(specs_, mesh->size(), alignment_of(storage, compute_dtype_, main));
  const std::string name =
      full_name(0) + (specs_.size() > 1 ? " and " + std::to_string(specs_.size() - 1) + " more" : "");

  weights_ = make_weights(resources_, layout_, {storage, compute_dtype_, main}, name);
  if (!is_trainable())
    return;
  accumulated_ = DBuffer(mesh, placements.gradient, layout_, main, {arena, Kind::gradients});
  accumulated_.set_name("gradient of " + name);
  main_gradient_ = accumulated_.view(placements.optimizer);
  if (has_persistent_partial())
    partial_ = accumulated_;
}

bool ParameterGroup::has_persistent_partial() const {
  const layout::Placements& gradient = resources_->placements.gradient;
  return std::all_of(gradient.begin(), gradient.end(), [](const auto& placement) { return placement.is_partial(); });
}

std::int64_t ParameterGroup::slot_bytes() const {
  return is_trainable() && !has_persistent_partial() ? layout_->size() * size_of(gradient_dtype_) : 0;
}

// --- gradients

bool ParameterGroup::is_reduced_at_the_end() const {
  return resources_->placements.gradient != resources_->placements.optimizer;
}

void ParameterGroup::check_can_accumulate() const {
  expect(!is_updated_, Status::INVALID_STATE, "module '", module_name_,
         "': its weights were updated while gradients were reduced; call the optimizer's step first");
  expect(!is_reduced_at_the_end() || !has_gradient_, Status::INVALID_STATE, "module '", module_name_,
         "': its gradient is already reduced over the ranks; call zero_grad before the next backward pass, or say "
         "set_last_microbatch(false) before all but the last");
}

void ParameterGroup::bind_slot() {
  slot_ = resources_->slots.acquire(*resources_->compute);
  const layout::Placements whole(resources_->mesh->dims(), layout::partial(resources_->config.reduction));
  partial_ =
      DBuffer::from_storage(resources_->slots.storage(*slot_), resources_->mesh, whole, layout_, gradient_dtype_);
  partial_.set_name(*main_gradient_.name());
  buffer::clear_padding(partial_, *resources_->compute);
}

ParameterGroup::Gradient ParameterGroup::gradient(int index) {
  if (!has_persistent_partial() && !slot_)
    bind_slot();
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
  if (!has_persistent_partial() && !slot_)
    bind_slot();
  for (std::size_t i = 0; i < specs_.size(); ++i)
    if (written_[i] == 0)
      buffer::clear_tensor(partial_, static_cast<int>(i), *resources_->compute);
  std::fill(written_this_pass_.begin(), written_this_pass_.end(), 0);
  const bool adds_up_here = has_persistent_partial() && !is_last_microbatch;
  std::fill(written_.begin(), written_.end(), adds_up_here ? 1 : 0);
  if (adds_up_here)
    return false;
  resources_->reduce->wait(resources_->compute->record()); // sees what the caller wrote
  is_last_ = is_last_microbatch;
  updates_ = is_last_microbatch && may_update_while_reducing();
  return true;
}

void ParameterGroup::end_reduction() {
  if (has_persistent_partial() && gradient_divisor_ != 1)
    buffer::scale(1 / gradient_divisor_, main_gradient_, *resources_->reduce);
  has_gradient_ = is_last_ || !is_reduced_at_the_end();
  is_reducing_ = true;
  ++gradient_version_;
  if (updates_) {
    is_updated_ = true;
    has_contributions_ = false;
  }
}

// Not where somebody may still read the weights, or results of reductions are not yet what an update takes.
bool ParameterGroup::may_update_while_reducing() const {
  return consumer_ && gradient_divisor_ == 1 && !weights_->is_unsharded() &&
         (is_reduced_at_the_end() || is_first_contribution());
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
  if (is_updated_)
    has_gradient_ = is_updated_ = false;
}

void ParameterGroup::reduce_to(const DBuffer& from, const DBuffer& to, bool updates) {
  runtime::Stream& reduce = *resources_->reduce;
  if (updates)
    buffer::redistribute(from, to, reduce, resources_->communicators, update_of_weights());
  else
    buffer::redistribute(from, to, reduce, resources_->communicators);
}

// The slot of this micro-batch goes to the placements of the gradient: into accumulated_ itself where nothing is there.
void ParameterGroup::reduce_contribution() {
  if (has_persistent_partial())
    return;
  if (is_first_contribution())
    return reduce_to(partial_, accumulated_, updates_ && !is_reduced_at_the_end());
  if (!addend_.is_valid())
    addend_ = DBuffer(resources_->mesh, resources_->placements.gradient, layout_, gradient_dtype_,
                      {resources_->arena, Kind::gradients});
  reduce_to(partial_, addend_, false);
}

void ParameterGroup::add_contribution() {
  if (has_persistent_partial())
    return;
  runtime::Stream& reduce = *resources_->reduce;
  if (is_first_contribution()) {
    if (gradient_divisor_ != 1)
      buffer::scale(1 / gradient_divisor_, accumulated_, reduce);
  } else if (!has_contributions_ && gradient_divisor_ == 1) {
    buffer::cast(addend_, accumulated_, reduce);
  } else {
    if (!has_contributions_)
      buffer::fill_zero(accumulated_, reduce);
    buffer::accumulate(1 / gradient_divisor_, addend_, accumulated_, reduce); // rounds once
  }
  has_contributions_ = true;
  resources_->slots.release(*slot_, reduce.record());
  slot_.reset();
}

void ParameterGroup::reduce_at_the_end() {
  if (is_last_ && is_reduced_at_the_end())
    reduce_to(accumulated_, main_gradient_, updates_);
}

void ParameterGroup::zero_grad() {
  has_gradient_ = has_contributions_ = false;
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
  state.gradient_version = [self] { return self->gradient_version_; };
  state.check_update = [self] { self->check_not_in_use(); };
  state.before_update = [self] { self->communicate([&] { self->weights_->begin_update(); }); };
  state.refresh = [self] { self->communicate([&] { self->publish(false); }); };
  state.publish = [self] { self->communicate([&] { self->publish(true); }); };
  state.update_while_reducing = [self](comm::Consumer consumer) {
    expect(!consumer || !self->consumer_, Status::INVALID_STATE, "fuse_with_reduction: another optimizer updates '",
           self->full_name(0), "' while its gradient is reduced; destroy that one first");
    self->consumer_ = std::move(consumer);
  };
  state.is_updated = [self] { return self->is_updated_; };
  return state;
}

} // namespace ostraka::fsdp
