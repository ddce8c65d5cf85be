// SPDX-License-Identifier: Apache-2.0
#include <ostraka/buffer/execute.hpp>
#include <ostraka/buffer/hash.hpp>
#include <ostraka/fsdp/impl/host_copy.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>

#include <algorithm>
#include <exception>
#include <utility>

namespace ostraka::fsdp {

void Weights::set(int index, const void* data, std::int64_t count, DType dtype) {
  begin_update();
  main_.copy_from(index, data, count, dtype);
  refresh();
  if (initial_ != nullptr)
    initial_->keep(index, data, count, dtype);
}

void Weights::initialise(int index, const Fill& fill) {
  begin_update();
  std::exception_ptr failure;
  try {
    impl::fill_tensor(main_, index, fill);
    if (initial_ != nullptr)
      initial_->keep(index, fill);
  } catch (...) {
    failure = std::current_exception(); // peers wait for the end of this update
  }
  refresh();
  if (failure)
    std::rethrow_exception(failure);
}

void Weights::end_making(const std::string& name) {
  for (buffer::DBuffer* buffer : {&main_, &model_, &resting_, &gathered_, &whole_})
    buffer->set_name(name);
  const layout::Placements& parameter = resources_->placements.parameter;
  if (std::any_of(parameter.begin(), parameter.end(), [](const auto& axis) { return axis.is_replicate(); }))
    initial_ = std::make_unique<InitialValues>(resources_, main_);
}

buffer::DBuffer& Weights::buffer(WeightPart part) {
  switch (part) {
  case WeightPart::main:
    return main_;
  case WeightPart::model:
    return model_;
  case WeightPart::resting:
    return resting_;
  case WeightPart::gathered:
    return gathered_;
  default:
    return whole_;
  }
}

void Weights::redistribute(WeightPart from, WeightPart to) {
  buffer::redistribute(buffer(from), buffer(to), *resources_->gather, resources_->communicators);
}

void Weights::cast(WeightPart from, WeightPart to, Queue queue) {
  buffer::cast(buffer(from), buffer(to), *(queue == Queue::gather ? resources_->gather : resources_->compute));
}

std::int64_t Weights::part_hash() const { return buffer::hash_of(main_); }

void Weights::broadcast() {
  begin_update();
  initial_->broadcast(main_);
  refresh();
}

void Weights::remember_whole() {
  if (resources_->mesh->checks() && !remembered_)
    remembered_ = hash_whole();
}

bool Weights::were_written() const { return remembered_ && *remembered_ != hash_whole(); }

std::int64_t Weights::hash_whole() const { return buffer::hash_of(whole_); }

std::unique_ptr<Weights> make_weights(std::shared_ptr<Resources> resources, const GroupPlan& plan,
                                      const std::string& name) {
  const auto make = resources->rests_whole ? impl::make_shared_weights : impl::make_gathered_weights;
  return make(std::move(resources), plan, name);
}

} // namespace ostraka::fsdp
