// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/progress.hpp>
#include <ostraka/runtime/stream.hpp>
#include <ostraka/runtime/trace.hpp>

#include <deque>

namespace ostraka::runtime {

namespace {

// Records the time of its life, also when it ends by an exception.
class Span {
public:
  Span(std::string_view track, const char* label) : track_(track), label_(label) {
    if (on_)
      begin_ = trace::Clock::now();
  }
  ~Span() {
    if (on_)
      trace::record(track_, label_, begin_, trace::Clock::now());
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;

private:
  std::string_view track_;
  const char* label_;
  const bool on_ = trace::is_tracing();
  trace::Clock::time_point begin_;
};

void run(std::string_view track, const char* label, const Stream::Body& body) {
  const Span span(track, label);
  body(Execution{});
}

class HostComputeStream final : public Stream {
public:
  Device device() const override { return Device::host; }
  void launch(const char* label, Body body) override { run("compute", label, body); }
  void submit(std::shared_ptr<Task> task) override {
    task->mark_ready();
    wait_until([&] { return task->is_done(); }, "communication on the compute stream");
    if (task->error())
      std::rethrow_exception(task->error());
  }
  void wait(const Event& event) override { synchronize(event, "compute stream"); }
  Event record() override { return {}; }
};

// A queue of steps, each polled until it says that it is complete. After an error the rest is skipped and events carry
// it.
class HostQueue final : public Stream, public Progressable {
public:
  explicit HostQueue(std::string name) : name_(std::move(name)) {}

  Device device() const override { return Device::host; }

  void launch(const char* label, Body body) override {
    push(label, [this, label, body = std::move(body)] {
      if (!error_)
        run(name_, label, body);
      return true;
    });
  }

  void submit(std::shared_ptr<Task> task) override {
    push("communication", [this, task = std::move(task)] {
      task->mark_ready();
      return is_over(task->is_done(), task->error());
    });
  }

  void wait(const Event& event) override {
    if (!event.is_done() || event.error())
      push("an event", [this, event] { return is_over(event.is_done(), event.error()); });
  }

  Event record() override {
    auto state = std::allocate_shared<Event::State>(Recycling<Event::State>());
    push("a record", [this, state] {
      state->error = error_;
      state->done = true;
      return true;
    });
    return Event(state);
  }

  void progress() noexcept override {
    if (advancing_)
      return; // a kernel of this queue is waiting for something itself
    advancing_ = true;
    while (!steps_.empty() && advance(steps_.front()))
      steps_.pop_front();
    advancing_ = false;
  }

  std::string pending() const override {
    return steps_.empty()
               ? ""
               : name_ + " stream: " + std::to_string(steps_.size()) + " steps, first " + steps_.front().label;
  }

  void abandon(const std::string& cause) noexcept override {
    if (steps_.empty())
      return;
    if (!error_) // the first cause counts
      error_ = std::make_exception_ptr(Error(Status::FAILED, cause));
    progress(); // with an error set, every step completes at once
  }

private:
  struct Step {
    const char* label;
    Callable<bool()> run; ///< true when complete
  };

  void push(const char* label, Callable<bool()> run) {
    steps_.push_back({label, std::move(run)});
    progress();
  }

  bool advance(Step& step) noexcept {
    try {
      return step.run();
    } catch (...) {
      error_ = std::current_exception();
      return true;
    }
  }

  bool is_over(bool done, std::exception_ptr error) {
    if (done && error && !error_)
      error_ = error;
    return done || error_;
  }

  std::string name_;
  std::deque<Step, Recycling<Step>> steps_;
  std::exception_ptr error_;
  bool advancing_ = false;
};

} // namespace

std::shared_ptr<Stream> make_host_compute_stream() { return std::make_shared<HostComputeStream>(); }
std::shared_ptr<Stream> make_host_queue(std::string name) { return std::make_shared<HostQueue>(std::move(name)); }

void synchronize(const Event& event, const char* what) {
  if (!event.is_done())
    wait_until([&] { return event.is_done(); }, what);
  if (event.error())
    std::rethrow_exception(event.error());
}

} // namespace ostraka::runtime
