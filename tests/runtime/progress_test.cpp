// SPDX-License-Identifier: Apache-2.0
#include "fake_work.hpp"
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"

#include <chrono>
#include <vector>

namespace ostraka::runtime::test {
namespace {

using ostraka::test::expect_error;
using ostraka::test::ScopedEnvironment;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

TEST(WaitLoop, ReturnsAtOnceWhenDone) {
  Poller poller([] {});
  wait_until([] { return true; }, "nothing");
  EXPECT_EQ(poller.polls, 0);
}

TEST(WaitLoop, PollsEverythingUntilDone) {
  int left = 1000;
  Poller idle([] {});
  Poller working([&] { --left; });
  wait_until([&] { return left == 0; }, "countdown");
  EXPECT_EQ(left, 0);
  EXPECT_EQ(idle.polls, 1000);
}

TEST(WaitLoop, TimesOutNamingWhatIsPending) {
  const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.1");
  Poller idle([] {});
  Poller gather([] {}, "row gather: allgather of 8 f64");
  Poller stream([] {}, "copy stream: 3 steps");
  const auto start = Clock::now();
  expect_error(
      Status::TIME_OUT, [] { wait_until([] { return false; }, "unshard of layer 3"); },
      {"unshard of layer 3", "0.1 s", "OSTRAKA_TIMEOUT_S", "row gather: allgather of 8 f64", "copy stream: 3 steps"});
  EXPECT_GE(seconds_since(start), 0.1);
  EXPECT_LT(seconds_since(start), 5);
  EXPECT_NE(gather.cause.find("unshard of layer 3"), std::string::npos);
  EXPECT_EQ(gather.cause, stream.cause);
}

TEST(WaitLoop, TimesOutWithNothingPending) {
  const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.05");
  expect_error(Status::TIME_OUT, [] { wait_until([] { return false; }, "a lost event"); },
               {"a lost event", "nothing of this process"});
}

TEST(WaitLoop, ZeroWaitsForEver) {
  const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0");
  const auto start = Clock::now();
  EXPECT_NO_THROW(wait_until([&] { return seconds_since(start) > 0.2; }, "a slow peer"));
}

// A queue whose step held the last reference to a mesh destroys communicators while everything is being polled.
TEST(WaitLoop, ObjectsComeAndGoWhilePolling) {
  std::vector<std::unique_ptr<Poller>> others;
  int later_polls = 0;
  bool renewed = false;
  Poller first([&] {
    if (renewed || others.empty())
      return;
    renewed = true;
    others.clear();
    for (int i = 0; i < 50; ++i)
      others.push_back(std::make_unique<Poller>([&] { ++later_polls; }));
  });
  for (int i = 0; i < 5; ++i)
    others.push_back(std::make_unique<Poller>([] {}));
  progress_all();
  EXPECT_TRUE(renewed);
  later_polls = 0;
  progress_all();
  EXPECT_EQ(later_polls, 50);
  EXPECT_EQ(first.polls, 2);
}

TEST(WaitLoop, ObjectsThatLeaveAreNotPolledAgain) {
  auto victim = std::make_unique<Poller>([] {});
  int polls_of_last = 0;
  Poller killer([&] { victim.reset(); });
  auto last = std::make_unique<Poller>([&] { ++polls_of_last; });
  progress_all();
  EXPECT_EQ(polls_of_last, 1);
  progress_all();
  EXPECT_EQ(polls_of_last, 2);
}

} // namespace
} // namespace ostraka::runtime::test
