// SPDX-License-Identifier: Apache-2.0
// 16-bit floating point storage types of our own: the same two bytes in host and CUDA builds (Kokkos' are 4 bytes on
// hosts). They only convert; arithmetic happens in float.
#pragma once

#include <cstdint>

#if defined(__CUDACC__)
#define OSTRAKA_INLINE_FUNCTION __host__ __device__ inline
#else
#define OSTRAKA_INLINE_FUNCTION inline
#endif

namespace ostraka {

/// bfloat16: the upper half of a float, rounded to nearest, ties to even; NaN stays NaN.
struct bfloat16 {
  std::uint16_t bits = 0;

  bfloat16() = default;
  OSTRAKA_INLINE_FUNCTION explicit bfloat16(float value) {
    const auto word = __builtin_bit_cast(std::uint32_t, value);
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    bits = is_nan ? static_cast<std::uint16_t>((word >> 16) | 0x40u)
                  : static_cast<std::uint16_t>((word + 0x7fffu + ((word >> 16) & 1u)) >> 16);
  }
  OSTRAKA_INLINE_FUNCTION explicit operator float() const {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(bits) << 16);
  }
};

static_assert(sizeof(bfloat16) == 2);

} // namespace ostraka
