// SPDX-License-Identifier: Apache-2.0
// The 16-bit floating types by another way than the library's: the value of a bit pattern from its sign, exponent and
// fraction, and rounding by comparing the exact distances to the two neighbours, in long double.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace ostraka::test {

/// A sign, `exponent_bits` and `fraction_bits`: 16 together.
struct Format16 {
  int exponent_bits;
  int fraction_bits;

  int bias() const { return (1 << (exponent_bits - 1)) - 1; }
  /// The pattern of infinity; finite patterns of a sign lie below and are ordered as their values.
  std::uint16_t infinity() const { return static_cast<std::uint16_t>(0x7fff >> fraction_bits << fraction_bits); }
  bool is_nan(std::uint16_t bits) const { return (bits & 0x7fff) > infinity(); }

  double value(std::uint16_t bits) const {
    const double sign = (bits & 0x8000) != 0 ? -1 : 1;
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int one = 1 << fraction_bits, fraction = bits & (one - 1);
    if (is_nan(bits))
      return std::numeric_limits<double>::quiet_NaN();
    if ((bits & 0x7fff) == infinity())
      return sign * std::numeric_limits<double>::infinity();
    return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias() - fraction_bits)
                         : sign * std::ldexp(one + fraction, exponent - bias() - fraction_bits);
  }

  /// The value of a pattern, or what infinity's would be if exponents went on.
  double step(std::uint16_t bits) const { return bits == infinity() ? std::ldexp(1, bias() + 1) : value(bits); }

  /// The nearest bit pattern, ties to even.
  std::uint16_t round(long double number) const {
    const auto sign = static_cast<std::uint16_t>(std::signbit(number) ? 0x8000 : 0);
    if (std::isnan(number))
      return static_cast<std::uint16_t>(sign | infinity() | 1 << (fraction_bits - 1));
    const long double size = std::abs(number);
    if (size >= step(infinity()))
      return static_cast<std::uint16_t>(sign | infinity());
    std::uint16_t below = 0, above = infinity();
    while (above - below > 1) {
      const auto middle = static_cast<std::uint16_t>((below + above) / 2);
      (value(middle) <= size ? below : above) = middle;
    }
    // Exact where it matters: neighbours are less than a factor of two apart, or 0 and the smallest number.
    const long double down = size - value(below), up = step(above) - size;
    const bool takes_upper = up < down || (up == down && below % 2 == 1);
    return static_cast<std::uint16_t>(sign | (takes_upper ? above : below));
  }
};

inline constexpr Format16 bf16_format{8, 7}, f16_format{5, 10};

inline double bf16_value(std::uint16_t bits) { return bf16_format.value(bits); }
inline double f16_value(std::uint16_t bits) { return f16_format.value(bits); }
inline std::uint16_t round_to_bf16(long double number) { return bf16_format.round(number); }
inline std::uint16_t round_to_f16(long double number) { return f16_format.round(number); }

} // namespace ostraka::test
