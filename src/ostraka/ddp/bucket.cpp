// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/pattern.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/ddp/bucket.hpp>

#include <algorithm>
#include <utility>

namespace ostraka::ddp {

using buffer::DBuffer;
using memory::Kind;

Bucket::Bucket(std::shared_ptr<Resources> resources, std::shared_ptr<Ranks> ranks, const std::string& name,
               Contents contents, const BufferMemory& memory)
    : resources_(std::move(resources)), ranks_(std::move(ranks)), contents_(std::move(contents)),
      weights_(resources_, ranks_, name, contents_.layout, memory.weights, memory.first, contents_.weight,
               contents_.main, contents_.is_sharded),
      accumulates_(contents_.names.size(), 0), written_(contents_.names.size(), 0) {
  gradients_ = DBuffer::from_storage(memory.gradients, ranks_->mesh, partial(*ranks_), contents_.layout,
                                     contents_.gradient, memory.first * size_of(contents_.gradient));
  gradients_.set_name("gradients of " + name);
  reduced_ = gradients_.view(optimizer_placements(*ranks_, contents_.is_sharded));
  main_gradient_ = contents_.main == contents_.gradient
                       ? reduced_
                       : DBuffer(ranks_->mesh, reduced_.placements(), contents_.layout, contents_.main,
                                 {ranks_->gradient_arena, Kind::gradients});
  for (std::size_t i = 0; i < accumulates_.size(); ++i)
    for (const std::string& pattern : resources_->config.f32_accumulators)
      accumulates_[i] |= matches(pattern, contents_.names[i]) ? 1 : 0;
  if (std::find(accumulates_.begin(), accumulates_.end(), 1) != accumulates_.end())
    accumulators_ = DBuffer(ranks_->mesh, gradients_.placements(), contents_.layout, DType::f32,
                            {ranks_->gradient_arena, Kind::gradients});
  clear_gradients();
}

DType Bucket::gradient_dtype(int tensor) const { return accumulates_[tensor] != 0 ? DType::f32 : contents_.gradient; }

Bucket::Gradient Bucket::gradient(int tensor) {
  const bool holds_contributions = written_[tensor] != 0;
  written_[tensor] = 1;
  const DBuffer& buffer = accumulates_[tensor] != 0 ? accumulators_ : gradients_;
  return {buffer.tensor_range(tensor).data, holds_contributions};
}

void Bucket::prepare_reduction() {
  for (std::size_t i = 0; i < written_.size(); ++i)
    if (written_[i] == 0)
      buffer::clear_tensor(accumulates_[i] != 0 ? accumulators_ : gradients_, static_cast<int>(i),
                           *resources_->compute);
  copy_accumulators(true);
}

void Bucket::start_reduction(bool all_reduce) {
  runtime::Stream& reduce = *resources_->reduce;
  if (ranks_->pre_scale != 1)
    buffer::scale(ranks_->pre_scale, gradients_, reduce);
  is_whole_reduced_ = all_reduce || !contents_.is_sharded || is_rounded_between_axes();
  if (is_whole_reduced_) // over all axes at once
    ranks_->communicators.data->allreduce(reduce, {gradients_.storage(), gradients_.byte_offset()}, gradients_.numel(),
                                          gradients_.dtype(), ranks_->op, gradients_.name());
  else
    buffer::redistribute(gradients_, reduced_, reduce, ranks_->communicators);
}

// 16-bit sums are rounded once, which takes one operation over all axes.
bool Bucket::is_rounded_between_axes() const {
  const mesh::DeviceMesh& mesh = *ranks_->mesh;
  return size_of(contents_.gradient) == 2 && mesh.size() != mesh.axis_size(mesh.dims() - 1);
}

void Bucket::complete_whole() {
  if (is_whole_reduced_)
    return;
  buffer::redistribute(reduced_, gradients_.view(replicated(*ranks_)), *resources_->reduce, ranks_->communicators);
  is_whole_reduced_ = true;
}

void Bucket::finish_reduction() {
  if (!main_gradient_.is_alias_of(gradients_))
    buffer::cast(reduced_, main_gradient_, *resources_->compute);
  copy_accumulators(false);
}

// Of tensors that have one, between the accumulator and the gradient that is reduced.
void Bucket::copy_accumulators(bool into_gradients) {
  for (std::size_t i = 0; i < accumulates_.size(); ++i)
    if (accumulates_[i] != 0)
      buffer::cast_tensor(into_gradients ? accumulators_ : gradients_, into_gradients ? gradients_ : accumulators_,
                          static_cast<int>(i), *resources_->compute);
}

void Bucket::zero_grad() { std::fill(written_.begin(), written_.end(), 0); }

void Bucket::clear_gradients() {
  buffer::fill_zero(gradients_, *resources_->compute);
  if (!main_gradient_.is_alias_of(gradients_))
    buffer::fill_zero(main_gradient_, *resources_->compute);
  if (accumulators_.is_valid())
    buffer::fill_zero(accumulators_, *resources_->compute);
  zero_grad();
}

std::vector<std::shared_ptr<memory::Storage>> Bucket::own_gradient_storages() const {
  std::vector<std::shared_ptr<memory::Storage>> storages;
  if (!main_gradient_.is_alias_of(gradients_))
    storages.push_back(main_gradient_.storage());
  if (accumulators_.is_valid())
    storages.push_back(accumulators_.storage());
  return storages;
}

void Bucket::scale_gradients(double factor) {
  buffer::scale(factor, gradients_, *resources_->compute);
  if (!main_gradient_.is_alias_of(gradients_))
    buffer::scale(factor, main_gradient_, *resources_->compute);
  if (accumulators_.is_valid())
    buffer::scale(factor, accumulators_, *resources_->compute);
}

buffer::NamedState Bucket::named_state() const {
  buffer::NamedState state;
  state.tensor_names = contents_.names;
  state.main_weight = weights_.main();
  if (!weights_.model().is_alias_of(weights_.main()))
    state.model_weight = weights_.model();
  state.main_gradient = main_gradient_;
  state.state_arena = ranks_->arena;
  return state;
}

} // namespace ostraka::ddp
