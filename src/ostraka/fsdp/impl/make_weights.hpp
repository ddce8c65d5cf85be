// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/fsdp/weights.hpp>

#include <memory>
#include <string>

namespace ostraka::fsdp::impl {

std::unique_ptr<Weights> make_gathered_weights(std::shared_ptr<Resources> resources, const GroupPlan& plan,
                                               const std::string& name);
std::unique_ptr<Weights> make_shared_weights(std::shared_ptr<Resources> resources, const GroupPlan& plan,
                                             const std::string& name);

} // namespace ostraka::fsdp::impl
