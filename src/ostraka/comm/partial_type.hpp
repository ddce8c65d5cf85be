// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/base/dtype.hpp>

namespace ostraka::comm {

/// The type in which sums of some of the ranks travel.
inline DType partial_type(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }

} // namespace ostraka::comm
