// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/task.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace ostraka::runtime::test {

/// Runs a function whenever the wait loop polls.
class Poller final : public Progressable {
public:
  explicit Poller(std::function<void()> body, std::string pending = "")
      : body_(std::move(body)), pending_(std::move(pending)) {}
  void progress() noexcept override {
    ++polls;
    body_();
  }
  std::string pending() const override { return pending_; }
  void abandon(const std::string& why) noexcept override { cause = why; }

  int polls = 0;
  std::string cause;

private:
  std::function<void()> body_;
  std::string pending_;
};

/// A task that completes some polls after its stream has reached it, as a communicator would do.
class DelayedTask final : public Task {
public:
  explicit DelayedTask(int polls, std::exception_ptr error = nullptr)
      : poller_([this, polls, error] {
          if (is_ready() && !is_done() && ++seen_ >= polls)
            finish(error);
        }) {}

private:
  int seen_ = 0;
  Poller poller_;
};

} // namespace ostraka::runtime::test
