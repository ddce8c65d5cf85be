// SPDX-License-Identifier: Apache-2.0
// Every rank has its part of the weights and gathers the whole: once for its node into memory that the ranks of the
// node share, or into memory of its own.
#include <ostraka/buffer/execute.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>

#include <algorithm>
#include <utility>

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
    resting_ = DBuffer(mesh, placements.parameter, layout, types.storage, {arena, Kind::parameters});
    model_ = resting_.view(placements.optimizer);
    main_ = types.main == types.storage
                ? model_
                : DBuffer(mesh, placements.optimizer, layout, types.main, {arena, Kind::parameters});
    const auto& gathers_into = resources_->shared != nullptr ? resources_->shared->arena() : arena;
    gathered_ = is_replicated(placements.parameter)
                    ? resting_
                    : DBuffer(mesh, everywhere, layout, types.storage, {gathers_into, Kind::transient, false});
    whole_ = types.storage == types.compute
                 ? gathered_
                 : DBuffer(mesh, everywhere, layout, types.compute, {arena, Kind::transient, false});
    for (DBuffer* buffer : {&main_, &model_, &resting_, &gathered_, &whole_})
      buffer->set_name(name);
    keep_initial_values();
  }

  void begin_update() override {
    wait_unsharded(); // a gather ahead may be sending these weights
    forget_whole();
  }

  void begin_update_after_reads() override {}

  void refresh(bool is_model_written) override {
    if (!is_model_written && !model_.is_alias_of(main_))
      buffer::cast(main_, model_, *resources_->compute);
    ++version_;
  }

  void reserve() override {
    gathered_.storage()->reallocate();
    if (resources_->shared != nullptr && !rests_whole())
      resources_->shared->populate_evenly(*gathered_.storage());
    whole_.storage()->reallocate();
  }
  void give_back() override {
    release_gathered();
    if (!whole_.is_alias_of(gathered_))
      whole_.release_storage();
  }

  void unshard() override {
    if (is_unsharded_ && whole_version_ == version_)
      return;
    reshard(); // a stale copy
    runtime::Stream& gather = *resources_->gather;
    try {
      reserve();
    } catch (...) { // as if nobody had asked
      give_back();
      throw;
    }
    gather.wait(resources_->compute->record()); // sees what the optimizer wrote, and comes behind users of this memory
    if (resting_version_ != version_)
      buffer::redistribute(model_, resting_, gather, resources_->communicators);
    if (!rests_whole())
      buffer::redistribute(resting_, gathered_, gather, resources_->communicators);
    is_unsharded_ = is_arriving_ = true;
    whole_version_ = resting_version_ = version_;
  }

  void complete_unshard() override {
    if (!std::exchange(is_arriving_, false))
      return;
    if (!whole_.is_alias_of(gathered_))
      buffer::cast(gathered_, whole_, *resources_->gather);
    unsharded_ = resources_->gather->record();
  }

  void wait_unsharded() override {
    if (!is_unsharded_)
      return;
    resources_->compute->wait(unsharded_);
    resources_->compute->hand_over(); // which reads addresses then; callers come behind it
    if (!whole_.is_alias_of(gathered_))
      release_gathered();
    remember_whole();
  }

  void reshard() override {
    if (!is_unsharded_)
      return;
    wait_unsharded(); // memory that a gather writes must not go back to the arena
    forget_whole();
    give_back();
    is_unsharded_ = false;
  }

private:
  bool rests_whole() const { return gathered_.is_alias_of(resting_); }
  void release_gathered() {
    if (!rests_whole())
      gathered_.release_storage();
  }

  DBuffer resting_;                   ///< placements of the parameter, storage type
  DBuffer gathered_;                  ///< whole, storage type; is resting_ where every rank keeps all of it
  std::int64_t resting_version_ = -1; ///< of the model weights, when resting_ was gathered last
  std::int64_t whole_version_ = -1;   ///< likewise, of the whole
  bool is_arriving_ = false;          ///< asked for, and complete_unshard() is to come
  runtime::Event unsharded_;
};

} // namespace

std::unique_ptr<Weights> make_gathered_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                               const WeightTypes& types, const std::string& name) {
  return std::make_unique<GatheredWeights>(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp::impl
