// SPDX-License-Identifier: Apache-2.0
// The types that optimizers compute in.
#pragma once

#include <ostraka/base/error.hpp>

namespace ostraka::optim::kernels {

/// Calls body with a value of the C++ type that stands for `dtype`, f64 or f32 (TYPE_MISMATCH otherwise).
template <class Body>
void with_main_type(DType dtype, const char* operation, Body&& body) {
  if (dtype == DType::f64)
    return body(double{});
  expect(dtype == DType::f32, Status::TYPE_MISMATCH, operation, ": expected main weights of f64 or f32, found ",
         name(dtype));
  body(float{});
}

} // namespace ostraka::optim::kernels
