// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/progress.hpp>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

namespace ostraka::runtime {

namespace {

std::vector<Progressable*>& registered() {
  static std::vector<Progressable*> all;
  return all;
}

[[noreturn]] void time_out(std::string_view what, double seconds) {
  std::string in_flight;
  for (const Progressable* item : registered()) {
    const std::string text = item->pending();
    if (!text.empty())
      in_flight += (in_flight.empty() ? "" : "; ") + text;
  }
  std::ostringstream message;
  message << what << ": not complete after " << seconds << " s (OSTRAKA_TIMEOUT_S); pending: "
          << (in_flight.empty() ? "nothing of this process" : in_flight);
  for (Progressable* item : registered())
    item->abandon(message.str());
  throw Error(Status::TIME_OUT, message.str());
}

} // namespace

Progressable::Progressable() { registered().push_back(this); }
Progressable::~Progressable() { std::erase(registered(), this); }

void progress_all() noexcept {
  for (Progressable* item : registered())
    item->progress();
}

void wait_until(const std::function<bool()>& done, std::string_view what) {
  using Clock = std::chrono::steady_clock;
  constexpr int spins_before_yield = 32, polls_per_clock_read = 256;
  const double limit = environment::timeout_seconds();
  const auto start = Clock::now();
  for (int polls = 1; !done(); ++polls) {
    progress_all();
    if (polls > spins_before_yield && !done())
      std::this_thread::yield(); // ranks may share cores
    if (limit > 0 && polls % polls_per_clock_read == 0 &&
        std::chrono::duration<double>(Clock::now() - start).count() > limit)
      time_out(what, limit);
  }
}

} // namespace ostraka::runtime
