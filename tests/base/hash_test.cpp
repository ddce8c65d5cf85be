// SPDX-License-Identifier: Apache-2.0
// Published test vectors of 64-bit FNV-1a.
#include <ostraka/base/hash.hpp>

#include <gtest/gtest.h>

#include <set>

namespace ostraka::test {
namespace {

std::int64_t shifted(std::uint64_t value) { return static_cast<std::int64_t>(value >> 1); }

TEST(Hash, KnownVectors) {
  EXPECT_EQ(Hash().value(), shifted(0xcbf29ce484222325u));
  EXPECT_EQ(Hash().bytes("a", 1).value(), shifted(0xaf63dc4c8601ec8cu));
  EXPECT_EQ(Hash().bytes("foobar", 6).value(), shifted(0x85944171f73967e8u));
  EXPECT_EQ(Hash().bytes("foo", 3).bytes("bar", 3).value(), shifted(0x85944171f73967e8u));
}

TEST(Hash, StringsKeepTheirBoundsAndValuesTheirWidth) {
  using namespace std::string_view_literals;
  EXPECT_NE(Hash().add("ab"sv).add("c"sv).value(), Hash().add("a"sv).add("bc"sv).value());
  EXPECT_NE(Hash().add(1).add(2).value(), Hash().add(2).add(1).value());
  EXPECT_NE(Hash().add(1).value(), Hash().add(std::int64_t{1}).value());
  std::set<std::int64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t value = Hash().add(i).value();
    EXPECT_GE(value, 0);
    seen.insert(value);
  }
  EXPECT_EQ(seen.size(), 1000u);
}

} // namespace
} // namespace ostraka::test
