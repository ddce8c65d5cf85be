// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/buffer/named_state.hpp>

#include <string>

namespace ostraka::optim {

/// Throws INVALID_STATE naming `operation` and a parameter unless the gradient of `state` is complete.
void require_gradient(const buffer::NamedState& state, const std::string& operation);
/// The same, and it has not been used up by an update during its reduction.
void require_kept_gradient(const buffer::NamedState& state, const std::string& operation);

} // namespace ostraka::optim
