// SPDX-License-Identifier: Apache-2.0
// 16-bit floating point storage types of our own: the same two bytes in host and CUDA builds (Kokkos' are 4 bytes on
// hosts). They only convert; arithmetic happens in float. Conversions round once, to nearest, ties to even; values
// beyond the largest finite one become infinite, NaN stays NaN. They work on bits, so modes of the processor that flush
// small numbers change nothing.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define OSTRAKA_INLINE_FUNCTION __host__ __device__ inline
#else
#define OSTRAKA_INLINE_FUNCTION inline
#endif

namespace ostraka {

namespace detail {

/// value / 2^shift, to nearest, ties to even; shift from 1 to 24.
OSTRAKA_INLINE_FUNCTION std::uint32_t shift_to_nearest(std::uint32_t value, int shift) {
  return (value + (1u << (shift - 1)) - 1 + ((value >> shift) & 1u)) >> shift;
}

/// value / 2^shift, rounded down; the last bit is set where that is not exact. shift from 1 to 63.
OSTRAKA_INLINE_FUNCTION std::uint32_t shift_to_odd(std::uint64_t value, int shift) {
  const bool is_exact = value << (64 - shift) == 0;
  return static_cast<std::uint32_t>(value >> shift) | (is_exact ? 0u : 1u);
}

/// `value` rounded to odd: towards zero, then the last bit set where that is not exact. The result lies on the same
/// side of every number with fewer bits as `value`, so rounding it again is rounding `value` once. From 2^128 on:
/// infinity; below 2^-149: zero, as in both 16-bit types.
OSTRAKA_INLINE_FUNCTION float round_to_odd(double value) {
  constexpr std::uint64_t bias = 1023 - 127; // of double beyond that of float
  const auto word = __builtin_bit_cast(std::uint64_t, value);
  const std::uint64_t size = word & 0x7fffffffffffffffu;
  const std::uint64_t exponent = size >> 52;
  std::uint32_t result = 0;
  if (exponent > bias && exponent < bias + 255)
    result = shift_to_odd(size - (bias << 52), 29);
  else if (exponent > bias)
    result = size > 0x7ff0000000000000u ? 0x7fc00000u : 0x7f800000u;
  else if (exponent + 23 > bias) // subnormal as a float: the fraction with its leading one, shifted further
    result = shift_to_odd((size & 0xfffffffffffffu) | 0x10000000000000u, static_cast<int>(bias - exponent) + 30);
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(word >> 32 & 0x80000000u) | result);
}

} // namespace detail

/// bfloat16: the upper half of a float.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  OSTRAKA_INLINE_FUNCTION explicit bfloat16(float value) {
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = static_cast<std::uint16_t>(is_nan ? (word >> 16) | 0x40u : detail::shift_to_nearest(word, 16));
  }
  OSTRAKA_INLINE_FUNCTION explicit bfloat16(double value) : bfloat16(detail::round_to_odd(value)) {}
  OSTRAKA_INLINE_FUNCTION explicit operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};

/// IEEE binary16: 5 bits of exponent (2^-14 to 2^15), 10 of fraction, subnormals down to 2^-24.
struct float16 {
  std::uint16_t bits = 0;

  float16() = default;
  OSTRAKA_INLINE_FUNCTION explicit float16(float value) {
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t size = word & 0x7fffffffu;
    std::uint32_t result = 0;
    if (size > 0x7f800000u) // NaN
      result = 0x7e00u | (size >> 13 & 0x3ffu);
    else if (size >= 0x47800000u) // from 2^16 on; what rounds up to 2^16 carries into the exponent below
      result = 0x7c00u;
    else if (size >= 0x38800000u) // from 2^-14 on
      result = detail::shift_to_nearest(size - (112u << 23), 13);
    else if (size >= 0x33000000u) // from 2^-25 on: multiples of 2^-24
      result = detail::shift_to_nearest((size & 0x7fffffu) | 0x800000u, 126 - static_cast<int>(size >> 23));
    bits = static_cast<std::uint16_t>((word >> 16 & 0x8000u) | result);
  }
  OSTRAKA_INLINE_FUNCTION explicit float16(double value) : float16(detail::round_to_odd(value)) {}
  OSTRAKA_INLINE_FUNCTION explicit operator float() const {
    const std::uint32_t size = bits & 0x7fffu;
    std::uint32_t word = size << 13;
    if (size >= 0x7c00u) // infinity, NaN
      word += 224u << 23;
    else if (size >= 0x400u)
      word += 112u << 23;
    else if (size != 0) // subnormal: the float of the integer, which is normal, times 2^-24
      word = __builtin_bit_cast(std::uint32_t, static_cast<float>(size)) - (24u << 23);
    return __builtin_bit_cast(float, (bits & 0x8000u) << 16 | word);
  }
};

static_assert(sizeof(bfloat16) == 2 && sizeof(float16) == 2);

} // namespace ostraka
