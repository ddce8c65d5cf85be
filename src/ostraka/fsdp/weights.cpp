// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>

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
    if (const buffer::TensorRange own = main_.tensor_range(index); own.count > 0)
      fill(own.offset, own.count, own.data, main_.dtype());
    if (initial_ != nullptr)
      initial_->keep(index, fill);
  } catch (...) {
    failure = std::current_exception(); // peers wait for the end of this update
  }
  refresh();
  if (failure)
    std::rethrow_exception(failure);
}

std::int64_t Weights::replica_hash(int index) const {
  if (initial_ != nullptr)
    return initial_->hash(index);
  const buffer::TensorRange range = main_.tensor_range(index);
  return Hash().bytes(range.data, static_cast<std::size_t>(range.count * size_of(main_.dtype()))).value();
}

void Weights::broadcast() {
  begin_update();
  if (initial_ != nullptr)
    initial_->broadcast(main_);
  else
    resources_->communicators.all->broadcast(*resources_->compute, {main_.storage(), main_.byte_offset()},
                                             main_.bytes(), 0);
  refresh();
}

void Weights::remember_whole() {
  if (environment::check() && !remembered_)
    remembered_ = hash_whole();
}

bool Weights::were_written() const { return remembered_ && *remembered_ != hash_whole(); }

std::int64_t Weights::hash_whole() const {
  return Hash().bytes(whole_.data(), static_cast<std::size_t>(whole_.bytes())).value();
}

std::unique_ptr<Weights> make_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                      const WeightTypes& types, const std::string& name) {
  const bool is_one_node = resources->shared != nullptr && resources->shared->size() == resources->mesh->size();
  const auto make = is_one_node ? impl::make_shared_weights : impl::make_gathered_weights;
  return make(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp
