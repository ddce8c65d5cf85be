// SPDX-License-Identifier: Apache-2.0
// One whole copy of the weights for all ranks of a node: each writes its part in place and reads the rest where it
// stands, so gathering moves nothing.
#include <ostraka/base/hash.hpp>
#include <ostraka/buffer/execute.hpp>
#include <ostraka/comm/node/shared_memory.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>
#include <ostraka/layout/builders.hpp>

#include <array>
#include <vector>

namespace ostraka::fsdp::impl {

namespace {

using buffer::DBuffer;
using memory::Kind;

class SharedWeights final : public Weights {
public:
  SharedWeights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout, const WeightTypes& types,
                const std::string& name)
      : Weights(std::move(resources)), region_(resources_->shared, name) {
    const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
    comm::SharedMemory& shared = *resources_->shared;
    const layout::Placements everywhere(mesh->dims(), layout::replicate());
    const auto storage =
        std::make_shared<memory::Storage>(shared.arena(), layout->size() * size_of(types.storage), Kind::parameters);
    stored_ = DBuffer::from_storage(storage, mesh, everywhere, layout, types.storage);
    model_ = stored_.view(layout::Placements(mesh->dims(), layout::shard()));
    if (model_.bytes() > 0)
      shared.populate(static_cast<std::byte*>(model_.data()), model_.bytes());
    buffer::fill_zero(model_, *resources_->compute);
    main_ = types.main == types.storage
                ? model_
                : DBuffer(mesh, model_.placements(), layout, types.main, {arena, Kind::parameters});
    whole_ = types.storage == types.compute
                 ? stored_
                 : DBuffer(mesh, everywhere, layout, types.compute, {arena, Kind::transient, false});
    for (DBuffer* buffer : {&main_, &model_, &stored_, &whole_})
      buffer->set_name(name);
    if (resources_->config.recipe != Recipe::no_shard)
      return;
    if (!resources_->config.broadcast)
      initial_hashes_.resize(static_cast<std::size_t>(layout->num_tensors()));
    else if (mesh->rank() == 0)
      initial_ = DBuffer(mesh, everywhere, layout, types.main, {arena, Kind::other});
  }

  void set(int index, const void* data, std::int64_t count, DType dtype) override {
    begin_update();
    main_.copy_from(index, data, count, dtype);
    refresh();
    if (!resources_->shared->is_started())
      keep_initial(index, data, count, dtype);
  }

  void begin_update() override { region_.begin_write(); }

  void refresh() override {
    if (!model_.is_alias_of(main_)) {
      begin_update();
      buffer::cast(main_, model_, *resources_->compute);
    }
    ++version_;
    region_.end_write();
  }

  // Each rank has written its own part only, so what is compared is what each was given.
  std::int64_t replica_hash(int index) const override { return initial_hashes_[static_cast<std::size_t>(index)]; }

  void broadcast() override {
    std::vector<comm::Transfer> sends;
    if (initial_.is_valid())
      for (int rank = 0; rank < resources_->mesh->size(); ++rank)
        sends.push_back({rank, part_of(rank).begin, part_of(rank).size()});
    const DBuffer& from = initial_.is_valid() ? initial_ : main_;
    resources_->communicators.all->exchange(*resources_->compute, {from.storage(), from.byte_offset()},
                                            std::move(sends), {main_.storage(), main_.byte_offset()},
                                            {{0, 0, main_.numel()}}, main_.dtype(), 0, main_.name());
    initial_ = {};
    refresh();
  }

  std::int64_t shared_bytes() const override { return model_.bytes(); }

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
  }

private:
  layout::Range part_of(int rank) const {
    const std::array sizes{resources_->mesh->size()}, coordinates{rank};
    return main_.layout()->local_range(main_.placements(), {sizes, coordinates});
  }

  // Of what this rank was given, other ranks keep other parts.
  void keep_initial(int index, const void* data, std::int64_t count, DType dtype) {
    if (initial_.is_valid()) {
      initial_.copy_from(index, data, count, dtype);
    } else if (!initial_hashes_.empty()) {
      const auto alone = std::make_shared<layout::GlobalLayout>(
          layout::build_flat({main_.layout()->shapes()[index]}, main_.mesh()->size()));
      DBuffer converted(main_.mesh(), stored_.placements(), alone, main_.dtype(), {resources_->arena, Kind::other});
      converted.copy_from(0, data, count, dtype);
      initial_hashes_[index] = Hash().bytes(converted.data(), static_cast<std::size_t>(converted.bytes())).value();
    }
  }

  /// Whether what is handed out is the shared copy itself.
  bool is_shared() const { return whole_.is_alias_of(stored_); }

  DBuffer stored_; ///< whole, storage type, shared
  comm::SharedRegion region_;
  bool is_whole_ = false; ///< asked for and waited for

  // Of replicated weights before training: what rank 0 was given, if it decides for all, else [tensor] hashes of what
  // this rank was given.
  DBuffer initial_;
  std::vector<std::int64_t> initial_hashes_;
};

} // namespace

std::unique_ptr<Weights> make_shared_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                             const WeightTypes& types, const std::string& name) {
  return std::make_unique<SharedWeights>(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp::impl
