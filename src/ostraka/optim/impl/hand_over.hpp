// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/buffer/named_state.hpp>
#include <ostraka/runtime/device.hpp>

#include <span>

namespace ostraka::optim {

/// What was queued for `states` is with their devices, so that the caller's own work comes behind it.
inline void hand_over(std::span<const buffer::NamedState> states) {
  for (const buffer::NamedState& state : states)
    runtime::compute_stream(state.main_weight.storage()->device())->hand_over();
}

} // namespace ostraka::optim
