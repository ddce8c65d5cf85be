// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace ostraka::optim {

/// What is different for a group of parameters; what is absent stays as it was.
struct GroupOptions {
  std::optional<double> learning_rate_factor = {}; ///< times the learning rate of the optimizer; >= 0
  std::optional<double> weight_decay = {};         ///< >= 0
  std::optional<int> max_dims = {};                ///< the group is only those with at most so many dimensions; >= 0
};

} // namespace ostraka::optim
