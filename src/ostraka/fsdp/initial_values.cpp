// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/hash.hpp>
#include <ostraka/fsdp/initial_values.hpp>
#include <ostraka/layout/builders.hpp>

#include <array>

namespace ostraka::fsdp {

using buffer::DBuffer;

InitialValues::InitialValues(std::shared_ptr<Resources> resources, const DBuffer& main)
    : resources_(std::move(resources)), layout_(main.layout()), dtype_(main.dtype()) {
  if (!resources_->config.broadcast)
    hashes_.resize(static_cast<std::size_t>(layout_->num_tensors()));
  else if (resources_->mesh->rank() == 0)
    values_ = DBuffer(resources_->mesh, whole(), layout_, dtype_, {arena_, memory::Kind::other});
}

layout::Placements InitialValues::whole() const {
  return layout::Placements(resources_->mesh->dims(), layout::replicate());
}

void InitialValues::keep(int index, const void* data, std::int64_t count, DType dtype) {
  if (values_.is_valid()) {
    values_.copy_from(index, data, count, dtype);
  } else if (!hashes_.empty()) {
    const auto alone = std::make_shared<layout::GlobalLayout>(
        layout::build_flat({layout_->shapes()[index]}, resources_->mesh->size()));
    DBuffer converted(resources_->mesh, whole(), alone, dtype_, {arena_, memory::Kind::other});
    converted.copy_from(0, data, count, dtype);
    hashes_[index] = Hash().bytes(converted.data(), static_cast<std::size_t>(converted.bytes())).value();
  }
}

void InitialValues::keep(int index, const Fill& fill) {
  if (values_.is_valid()) {
    const buffer::TensorRange all = values_.tensor_range(index);
    if (all.count > 0)
      fill(all.offset, all.count, all.data, dtype_);
  } else if (!hashes_.empty()) {
    hashes_[index] = -1; // every element has one owner, so there is nothing to compare but who did this
  }
}

void InitialValues::broadcast(const DBuffer& main) const {
  const int ranks = resources_->mesh->size();
  std::vector<comm::Transfer> sends;
  for (int rank = 0; rank < ranks && values_.is_valid(); ++rank) {
    const std::array sizes{ranks}, coordinates{rank};
    const layout::Range part = layout_->local_range(main.placements(), {sizes, coordinates});
    sends.push_back({rank, part.begin, part.size()});
  }
  const DBuffer& from = values_.is_valid() ? values_ : main; // others send nothing
  resources_->communicators.all->exchange(*resources_->compute, {from.storage(), from.byte_offset()}, std::move(sends),
                                          {main.storage(), main.byte_offset()}, {{0, 0, main.numel()}}, dtype_, 0,
                                          main.name());
}

} // namespace ostraka::fsdp
