// SPDX-License-Identifier: Apache-2.0
// bfloat16 by another way than the library's: the value of a bit pattern from its sign, exponent and fraction, and
// rounding by comparing the exact distances to the two neighbours, in double.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace ostraka::test {

/// The value of a bit pattern; infinity for the all-ones exponent without fraction.
inline double bf16_value(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  const int exponent = (bits >> 7) & 0xff;
  const int fraction = bits & 0x7f;
  if (exponent == 0xff)
    return fraction != 0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  return exponent == 0 ? sign * std::ldexp(fraction, -133) : sign * std::ldexp(128 + fraction, exponent - 134);
}

/// The nearest bit pattern, ties to even; beyond the largest finite value the next step counts as 2^128.
inline std::uint16_t round_to_bf16(double value) {
  if (std::isnan(value))
    return 0x7fc0;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double size = std::abs(value);
  if (size >= std::ldexp(1, 128))
    return static_cast<std::uint16_t>(sign | 0x7f80);
  std::uint16_t below = 0, above = 0x7f80; // patterns of one sign are ordered as their values
  while (above - below > 1) {
    const auto middle = static_cast<std::uint16_t>((below + above) / 2);
    (bf16_value(middle) <= size ? below : above) = middle;
  }
  const double upper = above == 0x7f80 ? std::ldexp(1, 128) : bf16_value(above);
  const double down = size - bf16_value(below), up = upper - size; // exact: floats are at most 2^16 apart in ulps
  const bool takes_upper = up < down || (up == down && below % 2 == 1);
  return static_cast<std::uint16_t>(sign | (takes_upper ? above : below));
}

} // namespace ostraka::test
