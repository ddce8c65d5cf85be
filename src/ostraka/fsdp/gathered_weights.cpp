// SPDX-License-Identifier: Apache-2.0
// Every rank has its part of the weights and gathers the whole into memory of its own.
#include <ostraka/base/hash.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>

#include <algorithm>

namespace ostraka::fsdp::impl {

namespace {

using buffer::DBuffer;
using memory::Kind;

bool is_replicated(const layout::Placements& placements) {
  return std::all_of(placements.begin(), placements.end(),
                     [](const auto& placement) { return placement.is_replicate(); });
}

class GatheredWeights final : public Weights {
public:
  GatheredWeights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout, const WeightTypes& types,
                  const std::string& name)
      : Weights(std::move(resources)) {
    const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
    const RecipePlacements& placements = resources_->placements;
    const layout::Placements everywhere(mesh->dims(), layout::replicate());
    main_ = DBuffer(mesh, placements.optimizer, layout, types.main, {arena, Kind::parameters});
    model_ = types.main == types.storage && placements.parameter == placements.optimizer
                 ? main_
                 : DBuffer(mesh, placements.parameter, layout, types.storage, {arena, Kind::parameters});
    gathered_ = is_replicated(placements.parameter)
                    ? model_
                    : DBuffer(mesh, everywhere, layout, types.storage, {arena, Kind::transient, false});
    whole_ = types.storage == types.compute
                 ? gathered_
                 : DBuffer(mesh, everywhere, layout, types.compute, {arena, Kind::transient, false});
    for (DBuffer* buffer : {&main_, &model_, &gathered_, &whole_})
      buffer->set_name(name);
  }

  void set(int index, const void* data, std::int64_t count, DType dtype) override {
    begin_update();
    main_.copy_from(index, data, count, dtype);
    refresh();
  }

  void begin_update() override {
    wait_unsharded(); // a gather ahead may be sending these weights
    forget_whole();
  }

  void refresh() override {
    if (!model_.is_alias_of(main_))
      buffer::cast(main_, model_, *resources_->compute);
    ++version_;
  }

  std::int64_t replica_hash(int index) const override {
    const buffer::TensorRange range = main_.tensor_range(index);
    return Hash().bytes(range.data, static_cast<std::size_t>(range.count * size_of(main_.dtype()))).value();
  }

  void broadcast() override {
    resources_->communicators.all->broadcast(*resources_->compute, {main_.storage(), main_.byte_offset()},
                                             main_.bytes(), 0);
    refresh();
  }

  void unshard() override {
    if (is_unsharded_ && whole_version_ == version_)
      return;
    reshard(); // a stale copy
    runtime::Stream& gather = *resources_->gather;
    gather.wait(resources_->compute->record()); // sees what the optimizer wrote
    if (!gathered_.is_alias_of(model_)) {
      gathered_.storage()->reallocate();
      buffer::redistribute(model_, gathered_, gather, resources_->communicators);
    }
    if (!whole_.is_alias_of(gathered_)) {
      whole_.storage()->reallocate();
      buffer::cast(gathered_, whole_, gather);
    }
    unsharded_ = gather.record();
    is_unsharded_ = true;
    whole_version_ = version_;
  }

  void wait_unsharded() override {
    if (!is_unsharded_)
      return;
    resources_->compute->wait(unsharded_);
    if (!whole_.is_alias_of(gathered_) && !gathered_.is_alias_of(model_))
      gathered_.release_storage();
    remember_whole();
  }

  void reshard() override {
    if (!is_unsharded_)
      return;
    wait_unsharded(); // memory that a gather writes must not go back to the arena
    forget_whole();
    for (DBuffer* whole : {&gathered_, &whole_})
      if (!whole->is_alias_of(model_))
        whole->release_storage();
    is_unsharded_ = false;
  }

private:
  DBuffer gathered_; ///< whole, storage type; is model_ when that is replicated
  runtime::Event unsharded_;
};

} // namespace

std::unique_ptr<Weights> make_gathered_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                               const WeightTypes& types, const std::string& name) {
  return std::make_unique<GatheredWeights>(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp::impl
