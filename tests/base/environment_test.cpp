// SPDX-License-Identifier: Apache-2.0
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/base/environment.hpp>

namespace ostraka::test {
namespace {

TEST(Environment, Check) {
  for (const char* off : {static_cast<const char*>(nullptr), "", "0"}) {
    const ScopedEnvironment scope("OSTRAKA_CHECK", off);
    EXPECT_FALSE(environment::check());
  }
  const ScopedEnvironment scope("OSTRAKA_CHECK", "1");
  EXPECT_TRUE(environment::check());
}

TEST(Environment, Timeout) {
  for (const auto& [text, seconds] :
       {std::pair<const char*, double>{nullptr, 300}, {"", 300}, {"0", 0}, {"2.5", 2.5}}) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", text);
    EXPECT_EQ(environment::timeout_seconds(), seconds);
  }
  for (const char* wrong : {"-1", "soon", "3 s", "nan"}) {
    const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", wrong);
    expect_error(Status::INVALID_ARGUMENT, [] { environment::timeout_seconds(); }, {"OSTRAKA_TIMEOUT_S", wrong});
  }
}

TEST(Environment, LogLevel) {
  for (const auto& [text, level] : {std::pair<const char*, int>{nullptr, 0}, {"none", 0}, {"warn", 1}, {"info", 2}}) {
    const ScopedEnvironment scope("OSTRAKA_LOG_LEVEL", text);
    EXPECT_EQ(environment::log_level(), level);
  }
  const ScopedEnvironment scope("OSTRAKA_LOG_LEVEL", "loud");
  expect_error(Status::INVALID_ARGUMENT, [] { environment::log_level(); }, {"OSTRAKA_LOG_LEVEL", "loud"});
}

} // namespace
} // namespace ostraka::test
