// SPDX-License-Identifier: Apache-2.0
// One whole copy of the weights for all ranks of a node: each writes its part in place and reads the rest where it
// stands, so gathering moves nothing.
#include <ostraka/base/checked.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>

namespace ostraka::fsdp::impl {

namespace {

using buffer::DBuffer;
using memory::Kind;

layout::Range own_range(const mesh::DeviceMesh& mesh, const layout::GlobalLayout& layout) {
  return layout.local_range(layout::Placements(mesh.dims(), layout::shard()), mesh.position());
}

layout::Range bytes_of(const layout::Range& elements, DType dtype) {
  return {elements.begin * size_of(dtype), elements.end * size_of(dtype)};
}

class SharedWeights final : public Weights {
public:
  SharedWeights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout, const WeightTypes& types,
                const std::string& name)
      : Weights(std::move(resources)),
        region_(resources_->shared, name, multiply(layout->size(), size_of(types.storage), "weights: bytes"),
                bytes_of(own_range(*resources_->mesh, *layout), types.storage)) {
    const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
    const layout::Placements everywhere(mesh->dims(), layout::replicate());
    stored_ = DBuffer::from_storage(region_.storage(), mesh, everywhere, layout, types.storage);
    model_ = stored_.view(layout::Placements(mesh->dims(), layout::shard()));
    region_.begin_write();
    buffer::fill_zero(model_, *resources_->compute); // memory may have been another's
    region_.end_write();
    main_ = types.main == types.storage
                ? model_
                : DBuffer(mesh, model_.placements(), layout, types.main, {arena, Kind::parameters});
    whole_ = types.storage == types.compute
                 ? stored_
                 : DBuffer(mesh, everywhere, layout, types.compute, {arena, Kind::transient, false});
    for (DBuffer* buffer : {&main_, &model_, &stored_, &whole_})
      buffer->set_name(name);
    if (resources_->config.recipe == Recipe::no_shard)
      initial_ = std::make_unique<InitialValues>(resources_, main_);
  }

  void begin_update() override { region_.begin_write(); }

  void refresh(bool is_model_written) override {
    begin_update();
    if (!is_model_written && !model_.is_alias_of(main_))
      buffer::cast(main_, model_, *resources_->compute);
    ++version_;
    region_.end_write();
  }

  std::int64_t shared_bytes() const override { return model_.bytes(); }

  void reserve() override { whole_.storage()->reallocate(); }
  void give_back() override {
    if (!is_shared())
      whole_.release_storage();
  }

  void unshard() override {
    if (is_unsharded_ && whole_version_ == version_)
      return;
    reshard(); // a stale copy
    is_unsharded_ = true;
    whole_version_ = version_;
  }

  void wait_unsharded() override {
    if (!is_unsharded_ || is_whole_)
      return;
    region_.begin_read();
    if (!is_shared()) {
      whole_.storage()->reallocate();
      buffer::cast(stored_, whole_, *resources_->compute);
      region_.end_read(); // peers may write again
      remember_whole();
    }
    is_whole_ = true;
  }

  void reshard() override {
    if (is_whole_) {
      if (is_shared())
        region_.end_read();
      else
        whole_.release_storage();
    }
    is_unsharded_ = is_whole_ = false;
    forget_whole();
  }

private:
  /// Whether what is handed out is the shared copy itself.
  bool is_shared() const { return whole_.is_alias_of(stored_); }

  DBuffer stored_; ///< whole, storage type, shared
  comm::SharedRegion region_;
  bool is_whole_ = false; ///< asked for and waited for

  std::int64_t whole_version_ = -1;
};

} // namespace

std::unique_ptr<Weights> make_shared_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                             const WeightTypes& types, const std::string& name) {
  return std::make_unique<SharedWeights>(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp::impl
