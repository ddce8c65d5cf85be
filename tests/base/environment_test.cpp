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

TEST(Environment, Backend) {
  for (const char* text : {static_cast<const char*>(nullptr), "", "node"}) {
    const ScopedEnvironment scope("OSTRAKA_BACKEND", text);
    EXPECT_EQ(environment::backend(), environment::Backend::node);
  }
  const ScopedEnvironment scope("OSTRAKA_BACKEND", "mpi");
  EXPECT_EQ(environment::backend(), environment::Backend::mpi);
  const ScopedEnvironment wrong("OSTRAKA_BACKEND", "shm");
  expect_error(Status::INVALID_ARGUMENT, [] { environment::backend(); },
               {"OSTRAKA_BACKEND", "node, mpi or staged", "shm"});
}

TEST(Environment, Device) {
  const ScopedEnvironment backend("OSTRAKA_BACKEND", "staged");
  EXPECT_EQ(environment::backend(), environment::Backend::staged);
  for (const char* text : {static_cast<const char*>(nullptr), "", "host"}) {
    const ScopedEnvironment scope("OSTRAKA_DEVICE", text);
    EXPECT_FALSE(environment::device().is_cuda);
  }
  const ScopedEnvironment cuda("OSTRAKA_DEVICE", "cuda");
  EXPECT_TRUE(environment::device().is_cuda);
  EXPECT_EQ(environment::device().index, -1);
  const ScopedEnvironment third("OSTRAKA_DEVICE", "cuda:2");
  EXPECT_TRUE(environment::device().is_cuda);
  EXPECT_EQ(environment::device().index, 2);
  for (const char* wrong : {"gpu", "cuda:", "cuda:-1", "cuda:1x"}) {
    const ScopedEnvironment scope("OSTRAKA_DEVICE", wrong);
    expect_error(Status::INVALID_ARGUMENT, [] { environment::device(); }, {"OSTRAKA_DEVICE", "cuda:N", wrong});
  }
}

TEST(Environment, SplitsOfNccl) {
  using environment::NcclSplit;
  for (const auto& [text, expected] : {std::pair<const char*, NcclSplit>{nullptr, NcclSplit::own},
                                       {"", NcclSplit::own},
                                       {"own", NcclSplit::own},
                                       {"shared", NcclSplit::shared},
                                       {"off", NcclSplit::off}}) {
    const ScopedEnvironment scope("OSTRAKA_NCCL_SPLIT", text);
    EXPECT_EQ(environment::nccl_split(), expected);
  }
  const ScopedEnvironment scope("OSTRAKA_NCCL_SPLIT", "yes");
  expect_error(Status::INVALID_ARGUMENT, [] { environment::nccl_split(); }, {"OSTRAKA_NCCL_SPLIT", "own", "yes"});
}

TEST(Environment, Numbers) {
  const auto is_read = [](const char* variable, const auto& read, const char* too_small, std::int64_t unset) {
    for (const auto& [text, number] : {std::pair<const char*, std::int64_t>{nullptr, unset}, {"", unset}, {"7", 7}}) {
      const ScopedEnvironment scope(variable, text);
      EXPECT_EQ(read(), number) << variable;
    }
    for (const char* wrong : {too_small, "-7", "2147483648", "7 ranks", "1e3"}) {
      const ScopedEnvironment scope(variable, wrong);
      expect_error(Status::INVALID_ARGUMENT, [&] { read(); }, {variable, wrong});
    }
  };
  is_read("OSTRAKA_COUNT_LIMIT", environment::count_limit, "0", 2147483647);
  is_read("OSTRAKA_RANKS_PER_NODE", environment::ranks_per_node, "-1", 0);
  const ScopedEnvironment off("OSTRAKA_RANKS_PER_NODE", "0"); // the default can be said
  EXPECT_EQ(environment::ranks_per_node(), 0);
}

} // namespace
} // namespace ostraka::test
