// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/pattern.hpp>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ostraka::test {
namespace {

TEST(Pattern, Matches) {
  for (const auto& [pattern, name] : std::vector<std::pair<const char*, const char*>>{{"a.b", "a.b"},
                                                                                      {"*", ""},
                                                                                      {"*", "a.b"},
                                                                                      {"a.*", "a."},
                                                                                      {"a.*", "a.weight"},
                                                                                      {"*.bias", "a.b.bias"},
                                                                                      {"*a*b", "aabab"},
                                                                                      {"a?c", "abc"},
                                                                                      {"**", "x"},
                                                                                      {"*?", "x"},
                                                                                      {"a*a", "aa"},
                                                                                      {"*.*.w", "x.y.z.w"}})
    EXPECT_TRUE(matches(pattern, name)) << pattern << " " << name;
  for (const auto& [pattern, name] : std::vector<std::pair<const char*, const char*>>{{"", "a"},
                                                                                      {"a", ""},
                                                                                      {"a.b", "a.bc"},
                                                                                      {"a.b", "xa.b"},
                                                                                      {"a.*", "ab"},
                                                                                      {"?", ""},
                                                                                      {"a?c", "ac"},
                                                                                      {"a*a", "a"},
                                                                                      {"*?", ""},
                                                                                      {"*.bias", "bias"},
                                                                                      {"*a*b", "aba"},
                                                                                      {"A", "a"}})
    EXPECT_FALSE(matches(pattern, name)) << pattern << " " << name;
}

} // namespace
} // namespace ostraka::test
