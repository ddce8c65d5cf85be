// SPDX-License-Identifier: Apache-2.0
// From a number that says a type to the C++ type: `body` is called with a value of it.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/float16.hpp>

#include <cstdint>

namespace ostraka {

/// Floating types only; for others calls otherwise().
template <class Body, class Otherwise>
void with_floating(DType dtype, Body&& body, Otherwise&& otherwise) {
  switch (dtype) {
  case DType::f64:
    return body(double{});
  case DType::f32:
    return body(float{});
  case DType::bf16:
    return body(bfloat16{});
  case DType::f16:
    return body(float16{});
  default:
    return otherwise();
  }
}

/// Every type.
template <class Body>
void with_type(DType dtype, Body&& body) {
  with_floating(dtype, body, [&] {
    switch (dtype) {
    case DType::i64:
      return body(std::int64_t{});
    case DType::i32:
      return body(std::int32_t{});
    default:
      return body(std::uint8_t{});
    }
  });
}

} // namespace ostraka
