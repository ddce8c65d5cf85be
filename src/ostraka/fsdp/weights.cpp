// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/impl/make_weights.hpp>

#include <utility>

namespace ostraka::fsdp {

std::unique_ptr<Weights> make_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                      const WeightTypes& types, const std::string& name) {
  const auto make = resources->shared != nullptr ? impl::make_shared_weights : impl::make_gathered_weights;
  return make(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp
