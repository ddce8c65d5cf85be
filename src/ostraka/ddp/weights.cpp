// SPDX-License-Identifier: Apache-2.0
#include <ostraka/buffer/execute.hpp>
#include <ostraka/buffer/hash.hpp>
#include <ostraka/ddp/weights.hpp>

#include <utility>

namespace ostraka::ddp {

using buffer::DBuffer;

layout::Placements replicated(const Ranks& ranks) {
  return layout::Placements(ranks.mesh->dims(), layout::replicate());
}

layout::Placements partial(const Ranks& ranks) {
  return layout::Placements(ranks.mesh->dims(), layout::partial(ranks.op));
}

layout::Placements optimizer_placements(const Ranks& ranks, bool is_sharded) {
  layout::Placements placements = replicated(ranks);
  if (is_sharded)
    placements.back() = layout::shard();
  return placements;
}

Weights::Weights(std::shared_ptr<Resources> resources, std::shared_ptr<Ranks> ranks, const std::string& name,
                 const buffer::LayoutPtr& layout, std::shared_ptr<memory::Storage> storage, std::int64_t first,
                 DType dtype, DType main_dtype, bool is_sharded)
    : resources_(std::move(resources)), ranks_(std::move(ranks)) {
  whole_ = DBuffer::from_storage(std::move(storage), ranks_->mesh, replicated(*ranks_), layout, dtype,
                                 first * size_of(dtype));
  whole_.set_name("weights of " + name);
  model_ = whole_.view(optimizer_placements(*ranks_, is_sharded));
  main_ = main_dtype == dtype ? model_
                              : DBuffer(ranks_->mesh, model_.placements(), layout, main_dtype,
                                        {ranks_->arena, memory::Kind::parameters});
  buffer::fill_zero(whole_, *resources_->compute);
}

void Weights::set(int index, const void* data, std::int64_t count, DType dtype) {
  whole_.copy_from(index, data, count, dtype);
  if (!main_.is_alias_of(whole_))
    main_.copy_from(index, data, count, dtype);
}

void Weights::broadcast() {
  ranks_->communicators.data->broadcast(*resources_->compute, {whole_.storage(), whole_.byte_offset()}, whole_.bytes(),
                                        0, whole_.name());
  if (!main_.is_alias_of(whole_))
    buffer::cast(model_, main_, *resources_->compute);
}

std::int64_t Weights::hash() const { return buffer::hash_of(whole_); }

std::int64_t Weights::hash(int index) const { return buffer::hash_of(whole_, index); }

void Weights::refresh(bool is_model_written) {
  if (!is_model_written && !main_.is_alias_of(whole_))
    buffer::cast(main_, model_, *resources_->compute);
}

void Weights::start_gather() { buffer::redistribute(model_, whole_, *resources_->gather, ranks_->communicators); }

} // namespace ostraka::ddp
