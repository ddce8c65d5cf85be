// SPDX-License-Identifier: Apache-2.0
// Norm, clipping, scaling and checks of the main gradients of NamedStates on meshes of the same ranks (INVALID_ARGUMENT
// otherwise). Elements that several ranks hold count once. All ranks of the mesh call these functions with the same
// arguments (RANKS_DISAGREE otherwise, where they communicate). INVALID_STATE naming the parameter when a gradient is
// not complete; on any error nothing has changed.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/optim/norm.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace ostraka::optim {

/// The norm, bitwise equal on all ranks, summed in f64 in an order that depends on the layouts and the number of ranks
/// only. Squares neither overflow nor underflow. NaN when an element is NaN, else infinite when one is (or when f64 has
/// no room for the norm); 0 without states. One collective operation. INVALID_ARGUMENT for another norm.
OSTRAKA_API double gradient_norm(std::span<const buffer::NamedState> states, Norm norm = Norm::l2);

/// Multiplies the gradients by max_norm / (norm + 1e-6) when the norm is larger than `max_norm` >= 0; returns the norm
/// of before, as gradient_norm. INVALID_STATE, naming the first parameter that is not finite, on all ranks when the
/// norm is not.
OSTRAKA_API double clip_gradients(std::span<const buffer::NamedState> states, double max_norm, Norm norm = Norm::l2);

/// The first NaN or infinity: of the first tensor in the order of the states, the lowest index (C order, from 0).
struct NonFinite {
  std::string parameter;
  std::int64_t index;
  int rank; ///< of the mesh; the lowest that holds it
  double value;
};

/// Where it is, equal on all ranks; nothing when all gradients are finite. One collective operation.
OSTRAKA_API std::optional<NonFinite> find_non_finite(std::span<const buffer::NamedState> states);
/// INVALID_STATE naming what find_non_finite() finds.
OSTRAKA_API void check_finite(std::span<const buffer::NamedState> states);

/// Multiplies the gradients by `factor`, rounding once (INVALID_ARGUMENT unless it is finite). Local.
OSTRAKA_API void scale_gradients(std::span<const buffer::NamedState> states, double factor);

} // namespace ostraka::optim
