// SPDX-License-Identifier: Apache-2.0
// bfloat16 and float16 against values built from sign, exponent and fraction and rounding by exact distances.
#include "support/round_16.hpp"
#include "support/rounds.hpp"
#include <ostraka/base/float16.hpp>

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <iostream>
#include <limits>
#include <random>
#include <type_traits>

namespace ostraka::test {
namespace {

template <class T>
T from_bits(std::uint16_t bits) {
  T value;
  value.bits = bits;
  return value;
}

template <class T>
class Float16 : public testing::Test {
public:
  static constexpr Format16 format = std::is_same_v<T, float16> ? f16_format : bf16_format;

  template <class From>
  static void expect_rounded(From value) {
    const std::uint16_t found = T(value).bits, expected = format.round(value);
    if (std::isnan(value))
      ASSERT_TRUE(format.is_nan(found)) << found;
    else
      ASSERT_EQ(found, expected) << std::hexfloat << value;
  }

  // Pattern `below`, the middle to the next one, which is exact in From, and its neighbours, with both signs.
  template <class From>
  static void expect_ties_to_even(std::uint16_t below) {
    const auto above = static_cast<std::uint16_t>(below + 1), even = below % 2 == 0 ? below : above;
    const auto middle = static_cast<From>((format.value(below) + format.step(above)) / 2);
    const From infinity = std::numeric_limits<From>::infinity();
    ASSERT_EQ(T(static_cast<From>(format.value(below))).bits, below);
    ASSERT_EQ(T(std::nextafter(middle, From{0})).bits, below);
    ASSERT_EQ(T(middle).bits, even) << below;
    ASSERT_EQ(T(std::nextafter(middle, infinity)).bits, above) << below;
    ASSERT_EQ(T(-std::nextafter(middle, From{0})).bits, below | 0x8000);
    ASSERT_EQ(T(-middle).bits, even | 0x8000) << below;
    ASSERT_EQ(T(-std::nextafter(middle, infinity)).bits, above | 0x8000) << below;
  }
};

using Types = testing::Types<bfloat16, float16>;
TYPED_TEST_SUITE(Float16, Types);

TYPED_TEST(Float16, AllValuesRoundTrip) {
  const Format16 format = TestFixture::format;
  EXPECT_EQ(TypeParam{}.bits, 0);
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const auto value = static_cast<float>(from_bits<TypeParam>(bits));
    ASSERT_EQ(std::signbit(value), bits >> 15 == 1) << bits;
    if (format.is_nan(bits)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(format.is_nan(TypeParam(value).bits)) << bits;
      ASSERT_TRUE(format.is_nan(TypeParam(static_cast<double>(value)).bits)) << bits;
      continue;
    }
    ASSERT_EQ(static_cast<double>(value), format.value(bits)) << bits;
    ASSERT_EQ(TypeParam(value).bits, bits);
    ASSERT_EQ(TypeParam(static_cast<double>(value)).bits, bits);
  }
}

// The neighbours of a tie in double round to the tie in float: rounding twice goes wrong.
TYPED_TEST(Float16, TiesGoToEven) {
  for (std::uint16_t below = 0; below < TestFixture::format.infinity(); ++below) {
    TestFixture::template expect_ties_to_even<float>(below);
    TestFixture::template expect_ties_to_even<double>(below);
    if (testing::Test::HasFatalFailure())
      return;
  }
}

TYPED_TEST(Float16, SpecialValues) {
  const double infinity = std::numeric_limits<double>::infinity(), largest = std::numeric_limits<double>::max();
  for (const double value : {0.0,
                             infinity,
                             largest,
                             1e300,
                             std::ldexp(1.0, 128),
                             0x1.ffffffp127,
                             0x1.fffffefffffffp127,
                             0x1.fffffep127,
                             0x1p-126,
                             0x1.fffffffffffffp-127,
                             0x1p-133,
                             0x1p-134,
                             0x1.0000000000001p-134,
                             0x1.8p-133,
                             0x1p-149,
                             0x1p-150,
                             0x1p-159,
                             0x1p-160,
                             0x1p-161,
                             1e-300,
                             std::numeric_limits<double>::min(),
                             std::numeric_limits<double>::denorm_min(),
                             65504.0,
                             65519.99999999999,
                             65520.0,
                             65536.0,
                             0x1p-24,
                             0x1p-25})
    for (const double sign : {1.0, -1.0}) {
      TestFixture::expect_rounded(sign * value);
      TestFixture::expect_rounded(static_cast<float>(sign * value));
    }
  // Payloads in the lowest bits only, which do not fit into 16.
  for (const std::uint64_t sign : {0, 1}) {
    TestFixture::expect_rounded(std::bit_cast<float>(static_cast<std::uint32_t>(sign << 31 | 0x7f800001u)));
    TestFixture::expect_rounded(std::bit_cast<double>(sign << 63 | 0x7ff0000000000001u));
    TestFixture::expect_rounded(std::bit_cast<double>(sign << 63 | 0x7fffffffffffffffu));
  }
}

TYPED_TEST(Float16, RandomValues) {
  const unsigned fresh = std::random_device{}();
  std::cout << "seed " << fresh << '\n';
  for (const unsigned seed : {1u, fresh}) {
    std::mt19937_64 random(seed);
    for (int i = 0; i < rounds(100'000); ++i) {
      const std::uint64_t word = random();
      TestFixture::expect_rounded(std::bit_cast<double>(word));
      TestFixture::expect_rounded(std::bit_cast<float>(static_cast<std::uint32_t>(word)));
      // Sizes from 2^-233 to 2^130, often with few bits.
      const auto bits = static_cast<double>(random() >> random() % 64);
      TestFixture::expect_rounded(std::ldexp(bits, static_cast<int>(random() % 300) - 233));
      if (testing::Test::HasFatalFailure())
        FAIL() << "seed " << seed;
    }
  }
}

TEST(Bfloat16, KnownValues) {
  EXPECT_EQ(bfloat16(1.0f).bits, 0x3f80);
  EXPECT_EQ(bfloat16(-2.5f).bits, 0xc020);
  EXPECT_EQ(bfloat16(257.0f).bits, bfloat16(256.0f).bits); // tie, down to even
  EXPECT_EQ(bfloat16(259.0f).bits, bfloat16(260.0f).bits); // tie, up to even
  EXPECT_EQ(bfloat16(3.4e38f).bits, 0x7f80);               // beyond the largest finite value
  EXPECT_EQ(bfloat16(257 + 0x1p-40).bits, bfloat16(258.0f).bits);
}

TEST(Binary16, KnownValues) {
  EXPECT_EQ(float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(float16(-2.5f).bits, 0xc100);
  EXPECT_EQ(float16(0.1).bits, 0x2e66);
  EXPECT_EQ(float16(65504.0f).bits, 0x7bff); // the largest
  EXPECT_EQ(float16(65519.0f).bits, 0x7bff);
  EXPECT_EQ(float16(65520.0f).bits, 0x7c00);  // a tie, to even: infinity
  EXPECT_EQ(float16(0x1p-14f).bits, 0x0400);  // the smallest normal
  EXPECT_EQ(float16(-0x1p-24f).bits, 0x8001); // the smallest
  EXPECT_EQ(float16(0x1p-25f).bits, 0x0000);  // a tie, to even: zero
  EXPECT_EQ(float16(0x1.000002p-25f).bits, 0x0001);
  EXPECT_EQ(float16(2049.0f).bits, float16(2048.0f).bits);
  EXPECT_EQ(float16(2049 + 0x1p-40).bits, float16(2050.0f).bits);
}

#ifdef __FLT16_MAX__
// A third opinion: the compiler's own type.
TEST(Binary16, LikeTheCompiler) {
  for (int i = 0; i < 65536; ++i) {
    const auto value = from_bits<float16>(static_cast<std::uint16_t>(i));
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(value));
    ASSERT_TRUE(static_cast<float>(value) == expected || std::isnan(expected)) << i;
  }
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(random() >> random() % 64), static_cast<int>(random() % 60) - 80);
    ASSERT_EQ(float16(value).bits, std::bit_cast<std::uint16_t>(static_cast<_Float16>(value))) << value;
    const auto single = static_cast<float>(value);
    ASSERT_EQ(float16(single).bits, std::bit_cast<std::uint16_t>(static_cast<_Float16>(single))) << single;
  }
}
#endif

} // namespace
} // namespace ostraka::test
