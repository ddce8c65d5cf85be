// SPDX-License-Identifier: Apache-2.0
// bfloat16 against values built from sign, exponent and fraction and rounding by exact distances.
#include "support/round_bf16.hpp"
#include <ostraka/base/float16.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

namespace ostraka::test {
namespace {

bool is_nan(std::uint16_t bits) { return (bits & 0x7f80) == 0x7f80 && (bits & 0x7f) != 0; }

bfloat16 from_bits(std::uint16_t bits) {
  bfloat16 value;
  value.bits = bits;
  return value;
}

TEST(Bfloat16, AllValuesRoundTrip) {
  EXPECT_EQ(bfloat16{}.bits, 0);
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto value = static_cast<float>(from_bits(bits));
    if (is_nan(bits)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(is_nan(bfloat16(value).bits)) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), bf16_value(bits)) << bits;
    ASSERT_EQ(std::signbit(value), bits >> 15 == 1) << bits;
    ASSERT_EQ(bfloat16(value).bits, bits);
  }
}

TEST(Bfloat16, RoundsToNearestTiesToEven) {
  for (std::uint32_t upper = 0; upper < 65536; ++upper)
    for (const std::uint32_t lower : {0x0001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const auto value = std::bit_cast<float>(upper << 16 | lower);
      if (std::isnan(value))
        ASSERT_TRUE(is_nan(bfloat16(value).bits)) << upper << " " << lower;
      else
        ASSERT_EQ(bfloat16(value).bits, round_to_bf16(value)) << upper << " " << lower;
    }
}

TEST(Bfloat16, KnownValues) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(-2.5f).bits, 0xc020);
  EXPECT_EQ(bfloat16(257.0f).bits, bfloat16(256.0f).bits); // tie, down to even
  EXPECT_EQ(bfloat16(259.0f).bits, bfloat16(260.0f).bits); // tie, up to even
  EXPECT_EQ(bfloat16(3.4e38f).bits, 0x7f80);               // beyond the largest finite value
}

} // namespace
} // namespace ostraka::test
