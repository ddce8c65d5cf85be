// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/fsdp/impl/make_weights.hpp>

#include <utility>

namespace ostraka::fsdp {

void Weights::remember_whole() {
  if (environment::check() && !remembered_)
    remembered_ = hash_whole();
}

bool Weights::were_written() const { return remembered_ && *remembered_ != hash_whole(); }

std::int64_t Weights::hash_whole() const {
  return Hash().bytes(whole_.data(), static_cast<std::size_t>(whole_.bytes())).value();
}

std::unique_ptr<Weights> make_weights(std::shared_ptr<Resources> resources, const buffer::LayoutPtr& layout,
                                      const WeightTypes& types, const std::string& name) {
  const auto make = resources->shared != nullptr ? impl::make_shared_weights : impl::make_gathered_weights;
  return make(std::move(resources), layout, types, name);
}

} // namespace ostraka::fsdp
