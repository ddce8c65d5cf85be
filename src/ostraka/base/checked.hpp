// SPDX-License-Identifier: Apache-2.0
// Integer arithmetic that throws where it would wrap.
#pragma once

#include <ostraka/base/error.hpp>

#include <cstdint>
#include <limits>
#include <string_view>

namespace ostraka {

/// `value` as an int; throws NOT_SUPPORTED naming `what` when it does not fit.
inline int narrow(std::int64_t value, std::string_view what) {
  expect(value >= std::numeric_limits<int>::min() && value <= std::numeric_limits<int>::max(), Status::NOT_SUPPORTED,
         what, ": ", value, " does not fit into 32 bits");
  return static_cast<int>(value);
}

/// a * b; throws INVALID_ARGUMENT naming `what` when the product leaves 64 bits.
inline std::int64_t multiply(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t product = 0;
  expect(!__builtin_mul_overflow(a, b, &product), Status::INVALID_ARGUMENT, what, ": ", a, " x ", b,
         " does not fit into 64 bits");
  return product;
}

/// a + b; throws INVALID_ARGUMENT naming `what` when the sum leaves 64 bits.
inline std::int64_t add(std::int64_t a, std::int64_t b, std::string_view what) {
  std::int64_t sum = 0;
  expect(!__builtin_add_overflow(a, b, &sum), Status::INVALID_ARGUMENT, what, ": ", a, " + ", b,
         " does not fit into 64 bits");
  return sum;
}

/// The smallest multiple of `multiple` (>= 1) that is >= `value` (>= 0).
inline std::int64_t round_up(std::int64_t value, std::int64_t multiple, std::string_view what) {
  const std::int64_t rest = value % multiple;
  return rest == 0 ? value : add(value, multiple - rest, what);
}

} // namespace ostraka
