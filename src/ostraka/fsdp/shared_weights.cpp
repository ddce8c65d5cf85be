// SPDX-License-Identifier: Apache-2.0
// One whole copy of the weights on every node: each rank updates its part in place, the parts of other nodes are
// gathered after an update, and all read the whole where it stands. On one node nothing moves.
#include <ostraka/base/checked.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>

#include <optional>

namespace ostraka::fsdp::impl {

namespace {

using buffer::DBuffer;
using memory::Kind;

class SharedWeights final : public Weights {
public:
  SharedWeights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout, const WeightTypes& types,
                const std::string& name)
      : Weights(std::move(resources)) {
    const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
    const comm::SharedMemory* shared = resources_->shared.get();
    spans_nodes_ = shared == nullptr || shared->size() != mesh->size();
    store(layout, types.storage, name);
    main_ = types.main == types.storage
                ? model_
                : DBuffer(mesh, model_.placements(), layout, types.main, {arena, Kind::parameters});
    whole_ = types.storage == types.compute
                 ? stored_
                 : DBuffer(mesh, stored_.placements(), layout, types.compute, {arena, Kind::transient, false});
    for (DBuffer* buffer : {&main_, &model_, &stored_, &gathered_, &whole_})
      buffer->set_name(name);
    keep_initial_values();
  }

  // Lines of peers may gather, over several axes, what this rank is about to write.
  void begin_update() override {
    complete_gather();
    if (region_ && spans_nodes_)
      region_->wait_written();
    begin_write();
  }

  void begin_update_after_reads() override {
    if (region_)
      region_->begin_write_after_reads();
  }

  void refresh(bool is_model_written) override {
    begin_update();
    if (!is_model_written && !model_.is_alias_of(main_))
      buffer::cast(main_, model_, *resources_->compute);
    ++version_;
    if (!spans_nodes_)
      end_write(); // else when the parts of other nodes have arrived
  }

  std::int64_t shared_bytes() const override {
    return region_ ? resources_->shared->part_of(stored_.bytes()).size() : 0;
  }

  void reserve() override { whole_.storage()->reallocate(); }
  void give_back() override {
    if (!hands_out_stored())
      whole_.release_storage();
  }

  void unshard() override {
    if (is_unsharded_ && whole_version_ == version_)
      return;
    reshard(); // a stale copy
    if (spans_nodes_ && gathered_version_ != version_)
      start_gather();
    is_unsharded_ = true;
    whole_version_ = version_;
  }

  void wait_unsharded() override {
    complete_gather();
    if (!is_unsharded_ || is_whole_)
      return;
    if (region_)
      region_->begin_read();
    if (!hands_out_stored()) {
      whole_.storage()->reallocate();
      buffer::cast(stored_, whole_, *resources_->compute);
      end_read(); // peers may write again
    }
    if (!region_ || !hands_out_stored())
      remember_whole();
    is_whole_ = true;
  }

  void reshard() override {
    complete_gather();
    if (is_whole_) {
      if (hands_out_stored())
        end_read();
      else
        whole_.release_storage();
    }
    is_unsharded_ = is_whole_ = false;
    forget_whole();
  }

private:
  /// Makes stored_, gathered_ and model_.
  void store(const buffer::LayoutPtr& layout, DType dtype, const std::string& name) {
    const auto& mesh = resources_->mesh;
    const auto& placements = resources_->placements;
    const layout::Placements everywhere(mesh->dims(), layout::replicate());
    const std::int64_t bytes = multiply(layout->size(), size_of(dtype), "weights: bytes");
    const auto part = [&](const layout::Placements& cut) {
      const layout::Range range = layout->local_range(cut, mesh->position());
      return layout::Range{range.begin * size_of(dtype), range.end * size_of(dtype)};
    };
    if (resources_->shared != nullptr && spans_nodes_)
      region_.emplace(resources_->shared, name, bytes, resources_->shared->part_of(bytes), part(placements.parameter));
    else if (resources_->shared != nullptr)
      region_.emplace(resources_->shared, name, bytes, part(placements.optimizer), part(placements.optimizer));
    const auto storage =
        region_ ? region_->storage() : std::make_shared<memory::Storage>(resources_->arena, bytes, Kind::parameters);
    stored_ = DBuffer::from_storage(storage, mesh, everywhere, layout, dtype);
    gathered_ = stored_.view(placements.parameter);
    model_ = stored_.view(placements.optimizer);
    begin_write();
    buffer::fill_zero(model_, *resources_->compute); // memory may have been another's
    end_write();
  }

  void begin_write() {
    if (region_)
      region_->begin_write();
  }
  void end_write() {
    if (region_)
      region_->end_write();
  }
  void end_read() {
    if (region_)
      region_->end_read();
  }

  void start_gather() {
    runtime::Stream& gather = *resources_->gather;
    begin_write();
    gather.wait(resources_->compute->record()); // sees what the optimizer wrote
    buffer::redistribute(model_, gathered_, gather, resources_->communicators);
    arrived_ = gather.record();
    is_gathering_ = true;
    gathered_version_ = version_;
  }

  void complete_gather() {
    if (!is_gathering_)
      return;
    resources_->compute->wait(arrived_);
    is_gathering_ = false;
    end_write();
  }

  bool hands_out_stored() const { return whole_.is_alias_of(stored_); }

  bool spans_nodes_ = false;
  std::optional<comm::SharedRegion> region_; ///< none where this rank is alone on its node
  DBuffer stored_;                           ///< whole, storage type, the node's
  DBuffer gathered_;      ///< placements of the parameter: with those of its peers on the node the whole
  bool is_whole_ = false; ///< asked for and waited for
  bool is_gathering_ = false;
  runtime::Event arrived_;
  std::int64_t whole_version_ = -1;
  std::int64_t gathered_version_ = -1;
};

} // namespace

std::unique_ptr<Weights> make_shared_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                             const WeightTypes& types, const std::string& name) {
  return std::make_unique<SharedWeights>(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp::impl
