// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/trace.hpp>

#include <algorithm>
#include <thread>
#include <vector>

namespace ostraka::runtime {

namespace {

using trace::Clock;

// Objects come and go while all are visited: a finished step of a queue may hold the last reference to a mesh, whose
// communicators then leave. Who leaves during a visit leaves a null behind, which the outermost visit removes.
class Registry {
public:
  void insert(Progressable* item) { items_.push_back(item); }
  void erase(Progressable* item) {
    if (visits_ == 0)
      std::erase(items_, item);
    else
      std::replace(items_.begin(), items_.end(), item, static_cast<Progressable*>(nullptr));
  }

  template <class Visit>
  void visit_all(Visit&& visit) {
    const Depth depth(*this);
    for (std::size_t i = 0; i < items_.size(); ++i) // items_ may grow
      if (items_[i] != nullptr)
        visit(*items_[i]);
  }

private:
  class Depth {
  public:
    explicit Depth(Registry& registry) : registry_(registry) { ++registry_.visits_; }
    ~Depth() {
      if (--registry_.visits_ == 0)
        std::erase(registry_.items_, nullptr);
    }

  private:
    Registry& registry_;
  };

  std::vector<Progressable*> items_;
  int visits_ = 0;
};

Registry& registry() {
  static Registry& all = *new Registry; // outlives objects that end with the process
  return all;
}

[[noreturn]] void time_out(std::string_view what, double seconds, Clock::time_point begin) {
  std::string in_flight;
  registry().visit_all([&](Progressable& item) {
    const std::string text = item.pending();
    if (!text.empty())
      in_flight += (in_flight.empty() ? "" : "; ") + text;
  });
  std::ostringstream message;
  message << what << ": not complete after " << seconds
          << " s (OSTRAKA_TIMEOUT_S); pending: " << (in_flight.empty() ? "nothing of this process" : in_flight)
          << "; has every rank made the same calls?";
  trace::record("time-outs", message.str(), begin, Clock::now());
  trace::write(); // who hangs is often killed next
  registry().visit_all([&](Progressable& item) { item.abandon(message.str()); });
  throw Error(Status::TIME_OUT, message.str());
}

} // namespace

Progressable::Progressable() { registry().insert(this); }
Progressable::~Progressable() { registry().erase(this); }

void progress_all() noexcept {
  registry().visit_all([](Progressable& item) { item.progress(); });
}

void wait_until(const std::function<bool()>& done, std::string_view what) {
  constexpr int polls_before_yield = 128, polls_per_clock_read = 256; // the first about 10 us
  double limit = 0;
  Clock::time_point start;
  for (int polls = 1; !done(); ++polls) {
    progress_all();
    if (polls < polls_before_yield)
      continue; // short waits do not even look at the environment and the clock
    if (polls == polls_before_yield) {
      limit = environment::timeout_seconds();
      start = Clock::now();
    }
    if (!done())
      std::this_thread::yield(); // ranks may share cores
    if (limit > 0 && polls % polls_per_clock_read == 0 &&
        std::chrono::duration<double>(Clock::now() - start).count() > limit)
      time_out(what, limit, start);
  }
}

} // namespace ostraka::runtime
