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

bool spans_nodes(const Resources& resources) {
  return resources.shared == nullptr || resources.shared->size() != resources.mesh->size();
}

/// What is gathered into, together with the parts of peers on the node, is the whole.
class SharedWeights final : public Weights {
public:
  SharedWeights(std::shared_ptr<Resources> resources, const GroupPlan& plan, const std::string& name)
      : Weights(resources, std::make_unique<SharedRules>(plan.types, spans_nodes(*resources))) {
    const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
    const WeightTypes& types = plan.types;
    store(plan.layout, types.storage, name);
    main_ = types.casts_main() ? DBuffer(mesh, model_.placements(), plan.layout, types.main, {arena, Kind::parameters})
                               : model_;
    whole_ = types.casts_whole()
                 ? DBuffer(mesh, gathered_.placements(), plan.layout, types.compute, {arena, Kind::transient, false})
                 : gathered_;
    end_making(name);
  }

  std::int64_t shared_bytes() const override {
    return region_ ? resources_->shared->part_of(gathered_.bytes()).size() : 0;
  }

private:
  /// Makes gathered_, resting_ and model_: one storage.
  void store(const buffer::LayoutPtr& layout, DType dtype, const std::string& name) {
    const auto& mesh = resources_->mesh;
    const auto& placements = resources_->placements;
    const layout::Placements everywhere(mesh->dims(), layout::replicate());
    const std::int64_t bytes = multiply(layout->size(), size_of(dtype), "weights: bytes");
    const auto part = [&](const layout::Placements& cut) {
      const layout::Range range = layout->local_range(cut, mesh->position());
      return layout::Range{range.begin * size_of(dtype), range.end * size_of(dtype)};
    };
    if (resources_->shared != nullptr && spans_nodes(*resources_))
      region_.emplace(resources_->shared, name, bytes, resources_->shared->part_of(bytes), part(placements.parameter));
    else if (resources_->shared != nullptr)
      region_.emplace(resources_->shared, name, bytes, part(placements.optimizer), part(placements.optimizer));
    const auto storage =
        region_ ? region_->storage() : std::make_shared<memory::Storage>(resources_->arena, bytes, Kind::parameters);
    gathered_ = DBuffer::from_storage(storage, mesh, everywhere, layout, dtype);
    resting_ = gathered_.view(placements.parameter);
    model_ = gathered_.view(placements.optimizer);
    begin_write();
    buffer::fill_zero(model_, *resources_->compute); // memory may have been another's
    end_write();
  }

  void begin_read() override {
    if (region_)
      region_->begin_read();
  }
  void end_read() override {
    if (region_)
      region_->end_read();
  }
  void begin_write() override {
    if (region_)
      region_->begin_write();
  }
  void begin_write_after_reads() override {
    if (region_)
      region_->begin_write_after_reads();
  }
  void end_write() override {
    if (region_)
      region_->end_write();
  }
  void wait_written() override {
    if (region_)
      region_->wait_written();
  }
  void whole_begins() override { // regions protect what they hold themselves
    if (!region_ || !whole_.is_alias_of(gathered_))
      remember_whole();
  }

  std::optional<comm::SharedRegion> region_; ///< none where this rank is alone on its node
};

} // namespace

std::unique_ptr<Weights> make_shared_weights(std::shared_ptr<Resources> resources, const GroupPlan& plan,
                                             const std::string& name) {
  return std::make_unique<SharedWeights>(std::move(resources), plan, name);
}

} // namespace ostraka::fsdp::impl
