// SPDX-License-Identifier: Apache-2.0
#include "progress.hpp"

#include "text.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ostraka::tool {

Progress::Progress(std::string verb, std::int64_t total, std::string things)
    : verb_(std::move(verb)), things_(std::move(things)), total_(total), is_terminal_(::isatty(STDERR_FILENO) == 1) {}

Progress::~Progress() {
  if (is_shown_)
    std::fputs("\r\033[K", stderr);
}

void Progress::add(std::int64_t number) {
  done_ += number;
  if (!is_terminal_)
    return;
  const auto now = Clock::now();
  if (now >= next_)
    show(now);
}

std::string Progress::state(double seconds) const {
  if (!things_.empty())
    return std::to_string(done_) + " of " + std::to_string(total_) + " " + things_;
  const auto rate = static_cast<std::int64_t>(static_cast<double>(done_) / seconds);
  return human_bytes(done_) + " of " + human_bytes(total_) + ", " + human_bytes(rate) + "/s";
}

void Progress::show(Clock::time_point now) {
  constexpr int width = 30;
  const double part = total_ > 0 ? std::min(1.0, static_cast<double>(done_) / static_cast<double>(total_)) : 1.0;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto filled = static_cast<std::size_t>(part * width);
  const std::string bar = std::string(filled, '#') + std::string(width - filled, ' ');
  std::fprintf(stderr, "\r%s [%s] %3d %%  %s\033[K", verb_.c_str(), bar.c_str(), static_cast<int>(100 * part),
               state(seconds).c_str());
  is_shown_ = true;
  next_ = now + std::chrono::milliseconds(100);
}

} // namespace ostraka::tool
