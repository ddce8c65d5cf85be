// SPDX-License-Identifier: Apache-2.0
// A bar on standard error while a command works long; nothing where that is no terminal.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace ostraka::tool {

/// Shows itself when the work takes longer than half a second, ten times a second; the destructor wipes it.
class Progress {
public:
  /// `total` in bytes, or in `things` where those are named ("plans").
  Progress(std::string verb, std::int64_t total, std::string things = "");
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();

  /// So many more are done.
  void add(std::int64_t number);

private:
  using Clock = std::chrono::steady_clock;

  void show(Clock::time_point now);
  std::string state(double seconds) const;

  std::string verb_, things_;
  std::int64_t total_, done_ = 0;
  bool is_terminal_, is_shown_ = false;
  Clock::time_point start_ = Clock::now(), next_ = start_ + std::chrono::milliseconds(500);
};

} // namespace ostraka::tool
