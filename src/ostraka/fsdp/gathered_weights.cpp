// SPDX-License-Identifier: Apache-2.0
// Every rank has its part of the weights and gathers the whole: once for its node into memory that the ranks of the
// node share, or into memory of its own.
#include <ostraka/fsdp/impl/make_weights.hpp>

#include <utility>

namespace ostraka::fsdp::impl {

namespace {

using buffer::DBuffer;
using memory::Kind;

class GatheredWeights final : public Weights {
public:
  GatheredWeights(std::shared_ptr<Resources> resources, const GroupPlan& plan, const std::string& name)
      : Weights(resources, std::make_unique<GatheredRules>(plan.types, plan.is_replicated)) {
    const auto& [mesh, arena] = std::pair{resources_->mesh, resources_->arena};
    const RecipePlacements& placements = resources_->placements;
    const WeightTypes& types = plan.types;
    const layout::Placements everywhere(mesh->dims(), layout::replicate());
    resting_ = DBuffer(mesh, placements.parameter, plan.layout, types.storage, {arena, Kind::parameters});
    model_ = resting_.view(placements.optimizer);
    main_ = types.casts_main() ? DBuffer(mesh, placements.optimizer, plan.layout, types.main, {arena, Kind::parameters})
                               : model_;
    const auto& gathers_into = resources_->shared != nullptr ? resources_->shared->arena() : arena;
    gathered_ = plan.is_replicated
                    ? resting_
                    : DBuffer(mesh, everywhere, plan.layout, types.storage, {gathers_into, Kind::transient, false});
    whole_ = types.casts_whole()
                 ? DBuffer(mesh, everywhere, plan.layout, types.compute, {arena, Kind::transient, false})
                 : gathered_;
    end_making(name);
  }

private:
  void take(WeightPart part) override {
    Weights::take(part);
    if (part == WeightPart::gathered && resources_->shared != nullptr)
      resources_->shared->populate_evenly(*gathered_.storage());
  }
};

} // namespace

std::unique_ptr<Weights> make_gathered_weights(std::shared_ptr<Resources> resources, const GroupPlan& plan,
                                               const std::string& name) {
  return std::make_unique<GatheredWeights>(std::move(resources), plan, name);
}

} // namespace ostraka::fsdp::impl
