// SPDX-License-Identifier: Apache-2.0
// CRC-32C against the published values and one that is computed bit by bit.
#include <ostraka/checkpoint/impl/crc32c.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace ostraka::checkpoint::impl {
namespace {

std::uint32_t slow(const std::vector<unsigned char>& bytes) {
  std::uint32_t crc = 0xffffffffu;
  for (const unsigned char byte : bytes)
    for (int bit = 0; bit < 8; ++bit) {
      const bool odd = ((crc ^ (byte >> bit)) & 1u) != 0;
      crc = (crc >> 1) ^ (odd ? 0x82f63b78u : 0u);
    }
  return ~crc;
}

std::vector<unsigned char> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<unsigned char> bytes(count);
  for (auto& byte : bytes)
    byte = static_cast<unsigned char>(random());
  return bytes;
}

TEST(Crc32c, PublishedValues) { // RFC 3720, B.4, and the check value of the polynomial
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0').data(), 32), 0x8a9136aau);
  EXPECT_EQ(crc32c(std::string(32, '\xff').data(), 32), 0x62a8ab43u);
  std::vector<unsigned char> ascending(32);
  for (unsigned i = 0; i < 32; ++i)
    ascending[i] = static_cast<unsigned char>(i);
  EXPECT_EQ(crc32c(ascending.data(), 32), 0x46dd794eu);
  EXPECT_EQ(crc32c(nullptr, 0), 0u);
}

TEST(Crc32c, EveryLengthAndAlignment) {
  const auto bytes = random_bytes(64, 1);
  for (std::size_t begin = 0; begin < 9; ++begin)
    for (std::size_t end = begin; end <= bytes.size(); ++end) {
      const std::vector<unsigned char> part(bytes.begin() + begin, bytes.begin() + end);
      ASSERT_EQ(crc32c(bytes.data() + begin, end - begin), slow(part)) << begin << " " << end;
      ASSERT_EQ(crc32c_portable(0, bytes.data() + begin, end - begin), slow(part)) << begin << " " << end;
    }
}

TEST(Crc32c, LongInputs) { // around the widths of the fast paths
  for (const std::size_t count : {511u, 512u, 513u, 767u, 768u, 769u, 1025u, 12287u, 12288u, 12289u, 24576u, 40000u}) {
    const auto bytes = random_bytes(count, 2);
    EXPECT_EQ(crc32c(bytes.data(), count), slow(bytes)) << count;
    EXPECT_EQ(crc32c_portable(0, bytes.data(), count), slow(bytes)) << count;
    EXPECT_EQ(crc32c(crc32c(bytes.data(), 77), bytes.data() + 77, count - 77), slow(bytes)) << count;
  }
}

// To and from every place of a line, and nothing beside it is written.
TEST(Crc32c, Copies) {
  using Copy = std::uint32_t (*)(std::uint32_t, void*, const void*, std::size_t);
  for (const Copy copy : {Copy(crc32c_copy), Copy(crc32c_copy_portable)})
    for (const std::size_t count : {0u, 1u, 63u, 511u, 512u, 575u, 576u, 1000u, 4099u, 12289u, 40000u})
      for (const std::size_t place : {0u, 1u, 8u, 31u, 63u}) {
        const auto bytes = random_bytes(count + 1, 4);
        const std::vector<unsigned char> from(bytes.begin() + 1, bytes.end());
        std::vector<unsigned char> to(count + 192, 0xaa);
        const std::size_t begin = (128 - reinterpret_cast<std::uintptr_t>(to.data()) % 64 + place) % 64 + 64;
        EXPECT_EQ(copy(crc32c("ab", 2), to.data() + begin, bytes.data() + 1, count),
                  crc32c_combine(crc32c("ab", 2), slow(from), static_cast<std::int64_t>(count)))
            << count << " " << place;
        std::vector<unsigned char> expected(to.size(), 0xaa);
        std::copy(from.begin(), from.end(), expected.begin() + static_cast<std::ptrdiff_t>(begin));
        EXPECT_EQ(to, expected) << count << " " << place;
      }
}

TEST(Crc32c, Combine) {
  const auto bytes = random_bytes(3000, 3);
  const std::uint32_t whole = slow(bytes);
  for (const std::size_t cut : {0u, 1u, 7u, 8u, 1000u, 2999u, 3000u})
    EXPECT_EQ(crc32c_combine(crc32c(bytes.data(), cut), crc32c(bytes.data() + cut, 3000 - cut),
                             static_cast<std::int64_t>(3000 - cut)),
              whole)
        << cut;
}

TEST(Crc32c, CombineBeyond32Bits) { // a run of zeros, squared: 2^33 zero bytes behind one byte
  std::uint32_t zeros = crc32c("\0", 1);
  std::int64_t count = 1;
  for (; count < (std::int64_t{1} << 33); count *= 2)
    zeros = crc32c_combine(zeros, zeros, count);
  const std::uint32_t right = crc32c_combine(crc32c("a", 1), zeros, count);
  std::uint32_t stepwise = crc32c("a", 1); // the same in two halves
  std::uint32_t half = crc32c("\0", 1);
  for (std::int64_t n = 1; n < count / 2; n *= 2)
    half = crc32c_combine(half, half, n);
  stepwise = crc32c_combine(crc32c_combine(stepwise, half, count / 2), half, count / 2);
  EXPECT_EQ(right, stepwise);
  EXPECT_NE(right, crc32c_combine(crc32c("a", 1), zeros, count % (std::int64_t{1} << 32)));
}

} // namespace
} // namespace ostraka::checkpoint::impl
