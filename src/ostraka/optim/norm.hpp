// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ostraka::optim {

/// Which norm of all gradients as one vector: sum |g|, sqrt(sum g^2), max |g|. Numbers are part of the C ABI.
enum class Norm : std::int32_t { l1 = 1, l2 = 2, max = 3 };

} // namespace ostraka::optim
