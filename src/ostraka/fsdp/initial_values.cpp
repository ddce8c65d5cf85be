// SPDX-License-Identifier: Apache-2.0
#include <ostraka/buffer/hash.hpp>
#include <ostraka/fsdp/impl/host_copy.hpp>
#include <ostraka/fsdp/initial_values.hpp>
#include <ostraka/layout/builders.hpp>

namespace ostraka::fsdp {

using buffer::DBuffer;

namespace {

bool is_first_replica(const layout::Placements& placements, std::span<const int> coordinates) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    if (placements[axis].is_replicate() && coordinates[axis] != 0)
      return false;
  return true;
}

} // namespace

InitialValues::InitialValues(std::shared_ptr<Resources> resources, const DBuffer& main)
    : resources_(std::move(resources)), layout_(main.layout()), dtype_(main.dtype()) {
  if (!resources_->config.broadcast)
    hashes_.resize(static_cast<std::size_t>(layout_->num_tensors()));
  else if (resources_->mesh->rank() == 0)
    values_ = make_whole(layout_);
}

DBuffer InitialValues::make_whole(buffer::LayoutPtr layout) const {
  const layout::Placements everywhere(resources_->mesh->dims(), layout::replicate());
  return DBuffer(resources_->mesh, everywhere, std::move(layout), dtype_, {arena_, memory::Kind::other});
}

DBuffer InitialValues::make_zero(int index) const {
  return make_whole(
      std::make_shared<layout::GlobalLayout>(layout::build_flat({layout_->shapes()[index]}, resources_->mesh->size())));
}

void InitialValues::keep(int index, const void* data, std::int64_t count, DType dtype) {
  if (values_.is_valid()) {
    values_.copy_from(index, data, count, dtype);
  } else if (!hashes_.empty()) {
    DBuffer converted = make_zero(index);
    converted.copy_from(0, data, count, dtype);
    hashes_[index] = buffer::hash_of(converted);
  }
}

void InitialValues::keep(int index, const Fill& fill) {
  if (values_.is_valid()) {
    impl::fill_tensor(values_, index, fill);
  } else if (!hashes_.empty()) {
    hashes_[index] = -1; // known where it is kept only: who keeps the same compares that
  }
}

std::int64_t InitialValues::hash(int index) const {
  const std::optional<std::int64_t>& known = hashes_[static_cast<std::size_t>(index)];
  return known ? *known : buffer::hash_of(make_zero(index)); // what nobody sets is zero
}

// To the first of all ranks that hold a part, and from there to the others.
void InitialValues::broadcast(const DBuffer& main) const {
  const layout::MeshPosition here = resources_->mesh->position();
  const layout::Placements& placements = main.placements();
  std::vector<comm::Transfer> sends, receives;
  for (int rank = 0; rank < resources_->mesh->size() && values_.is_valid(); ++rank) {
    const std::vector<int> coordinates = layout::coordinates_of(rank, here.sizes);
    const layout::Range part = layout_->local_range(placements, {here.sizes, coordinates});
    if (is_first_replica(placements, coordinates))
      sends.push_back({rank, part.begin, part.size()});
  }
  if (is_first_replica(placements, here.coordinates))
    receives.push_back({0, 0, main.numel()});
  const DBuffer& from = values_.is_valid() ? values_ : main; // others send nothing
  const comm::Operand to{main.storage(), main.byte_offset()};
  runtime::Stream& stream = *resources_->compute;
  resources_->communicators.data->exchange(stream, {from.storage(), from.byte_offset()}, std::move(sends), to,
                                           std::move(receives), dtype_, 0, main.name());
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    if (placements[axis].is_replicate())
      resources_->communicators.gather[axis]->broadcast(stream, to, main.bytes(), 0);
}

} // namespace ostraka::fsdp
