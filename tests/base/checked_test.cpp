// SPDX-License-Identifier: Apache-2.0
// Checked arithmetic against 128-bit integers.
#include "support/expect_error.hpp"
#include <ostraka/base/checked.hpp>

#include <limits>
#include <random>

namespace ostraka::test {
namespace {

__extension__ using Wide = __int128;

constexpr std::int64_t largest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t smallest = std::numeric_limits<std::int64_t>::min();

bool fits(Wide value) { return value >= smallest && value <= largest; }

void check(std::int64_t a, std::int64_t b) {
  const Wide product = static_cast<Wide>(a) * b, sum = static_cast<Wide>(a) + b;
  if (fits(product))
    EXPECT_EQ(multiply(a, b, "x"), static_cast<std::int64_t>(product)) << a << " " << b;
  else
    expect_error(Status::INVALID_ARGUMENT, [&] { multiply(a, b, "bytes of tensor"); },
                 {"bytes of tensor", std::to_string(a), std::to_string(b)});
  if (fits(sum))
    EXPECT_EQ(add(a, b, "x"), static_cast<std::int64_t>(sum)) << a << " " << b;
  else
    expect_error(Status::INVALID_ARGUMENT, [&] { add(a, b, "offset"); }, {"offset"});
}

TEST(Checked, MultiplyAndAdd) {
  const std::int64_t corners[] = {
      smallest,  smallest + 1, -3'037'000'500,  -1,          0,      1, 2, 3'037'000'499, 3'037'000'500, 1LL << 31,
      1LL << 32, largest / 2,  largest / 2 + 1, largest - 1, largest};
  for (const std::int64_t a : corners)
    for (const std::int64_t b : corners)
      check(a, b);
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const auto a = static_cast<std::int64_t>(random()) >> (random() % 63);
    const auto b = static_cast<std::int64_t>(random()) >> (random() % 63);
    check(a, b);
  }
}

TEST(Checked, Narrow) {
  EXPECT_EQ(narrow(2'147'483'647, "count"), 2'147'483'647);
  EXPECT_EQ(narrow(-2'147'483'648LL, "count"), std::numeric_limits<int>::min());
  expect_error(Status::NOT_SUPPORTED, [] { narrow(2'147'483'648LL, "count"); }, {"count", "2147483648"});
  expect_error(Status::NOT_SUPPORTED, [] { narrow(-2'147'483'649LL, "count"); }, {"-2147483649"});
}

TEST(Checked, RoundUp) {
  for (std::int64_t multiple = 1; multiple < 20; ++multiple)
    for (std::int64_t value = 0; value < 100; ++value) {
      std::int64_t expected = 0;
      while (expected < value)
        expected += multiple;
      EXPECT_EQ(round_up(value, multiple, "x"), expected);
    }
  EXPECT_EQ(round_up(largest, 1, "x"), largest);
  EXPECT_EQ(round_up(largest - 7, 8, "x"), largest - 7);
  expect_error(Status::INVALID_ARGUMENT, [] { round_up(largest - 6, 8, "segment"); }, {"segment"});
}

} // namespace
} // namespace ostraka::test
