// SPDX-License-Identifier: Apache-2.0
// Streams and events of a GPU. Hosts only queue: nothing here waits for the device, which other streams and hosts do
// through events.
#include <ostraka/base/log.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/impl/cuda_check.hpp>
#include <ostraka/runtime/impl/instances.hpp>
#include <ostraka/runtime/progress.hpp>

#include <cstring>
#include <deque>
#include <utility>
#include <vector>

namespace ostraka::runtime {

namespace {

using impl::check_cuda;

std::vector<cudaEvent_t>& free_events() {
  static auto& events = *new std::vector<cudaEvent_t>; // outlives objects that end with the process
  return events;
}

class CudaEventState final : public Event::State {
public:
  ~CudaEventState() override {
    if (event_ != nullptr)
      free_events().push_back(event_); // waits that are queued refer to the point, not to the event
  }

  void place(cudaStream_t stream) {
    auto& events = free_events();
    if (events.empty()) {
      cudaEvent_t made = nullptr;
      check_cuda(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), "an event");
      events.push_back(made);
    }
    check_cuda(cudaEventRecord(events.back(), stream), "an event");
    event_ = events.back();
    events.pop_back();
  }

  bool poll() override {
    if (done || event_ == nullptr)
      return done;
    const cudaError_t code = cudaEventQuery(event_);
    if (code == cudaErrorNotReady)
      return false;
    done = true;
    try {
      check_cuda(code, "work on the GPU");
    } catch (...) {
      error = std::current_exception();
    }
    return true;
  }
  void* native() const override { return event_; }

private:
  cudaEvent_t event_ = nullptr; ///< null until it stands in its stream
};

// Bodies and tasks refer to memory that is used until the device has done what they queued. They are kept in batches,
// each up to an event.
class Retained {
public:
  void add(std::shared_ptr<const void> user) { open_.push_back(std::move(user)); }
  bool is_empty() const { return open_.empty() && closed_.empty(); }

  /// `may_record`: nobody is about to queue something on the stream by himself.
  void release_done(cudaStream_t stream, bool may_record) {
    while (!closed_.empty() && closed_.front().first->poll()) {
      const auto done = std::move(closed_.front()); // whose end may come back here
      closed_.pop_front();
    }
    if (open_.empty() || closed_.size() > 1 || !may_record) // one event for what comes meanwhile
      return;
    auto state = std::make_shared<CudaEventState>();
    state->place(stream);
    close(std::move(state));
  }

  /// Whoever came before is done when `state` is.
  void close(std::shared_ptr<CudaEventState> state) {
    if (!open_.empty())
      closed_.emplace_back(std::move(state), std::exchange(open_, {}));
  }

  /// Never frees what is here: the device may still use it.
  void quarantine() {
    static auto& kept = *new std::vector<std::shared_ptr<const void>>;
    for (auto& [event, users] : closed_)
      kept.insert(kept.end(), users.begin(), users.end());
    kept.insert(kept.end(), open_.begin(), open_.end());
    closed_.clear();
    open_.clear();
  }

private:
  using Users = std::vector<std::shared_ptr<const void>>;
  Users open_;
  std::deque<std::pair<std::shared_ptr<CudaEventState>, Users>> closed_;
};

enum class Role { compute, queue };

// Work goes to the device at once while the host does not hold the stream up, and in steps, as on a HostQueue, behind
// what does: a task of the host, an event that has no place yet. What a body throws reaches the caller of the compute
// stream where it runs at once; all other errors skip what follows and travel through events, those of the compute
// stream through the next one only, since it serves everybody.
class CudaStream final : public Stream, public Progressable {
public:
  CudaStream(std::string name, cudaStream_t stream, bool is_own, Role role)
      : name_(std::move(name)), stream_(stream), is_own_(is_own), role_(role) {}

  ~CudaStream() override {
    try {
      if (!retained_.is_empty() || !steps_.empty())
        synchronize(record(), name_.c_str());
    } catch (const std::exception& cause) {
      log::warn(name_ + ": " + cause.what());
    }
    retained_.release_done(stream_, false);
    retained_.quarantine(); // empty unless that failed
    let_go();
  }

  Device device() const override { return Device::cuda; }
  cudaStream_t native() const { return stream_; }
  bool is_own() const { return is_own_; }

  /// Goes on with another stream, behind what this one has.
  void move_to(cudaStream_t stream, bool is_own) {
    hand_over();
    const Event before = record();
    check_cuda(cudaStreamWaitEvent(stream, static_cast<cudaEvent_t>(before.native()), 0), "a wait for an event");
    let_go();
    stream_ = stream;
    is_own_ = is_own;
  }

  void launch(const char* label, Body body) override {
    progress();
    if (steps_.empty() && !error_ && role_ == Role::compute)
      return run(std::move(body));
    push(label, [this, body = std::move(body)]() mutable {
      if (!error_)
        run(std::move(body));
      return true;
    });
  }

  void submit(std::shared_ptr<Task> task) override {
    push("communication", [this, task = std::move(task), before = std::shared_ptr<CudaEventState>()]() mutable {
      if (!task->is_ready() && !may_start(*task, before))
        return false;
      if (!is_over(task->is_done(), task->error()))
        return false;
      retained_.add(std::move(task));
      return true;
    });
  }

  void wait(const Event& event) override {
    push("an event", [this, event] {
      if (event.native() == nullptr)
        return is_over(event.is_done(), event.error());
      check_cuda(cudaStreamWaitEvent(stream_, static_cast<cudaEvent_t>(event.native()), 0), "a wait for an event");
      return is_over(true, event.error());
    });
  }

  Event record() override {
    auto state = std::make_shared<CudaEventState>();
    push("a record", [this, state] {
      try {
        state->place(stream_);
        retained_.close(state);
      } catch (...) { // who waits for it must not wait for ever
        keep(std::current_exception());
        state->done = true;
      }
      state->error = error_;
      if (role_ == Role::compute)
        error_ = nullptr;
      return true;
    });
    return Event(state);
  }

  void hand_over() override {
    progress();
    if (!steps_.empty())
      wait_until([&] { return steps_.empty(); }, name_ + " stream");
    if (error_ && role_ == Role::compute)
      std::rethrow_exception(std::exchange(error_, nullptr));
  }

  void progress() noexcept override {
    if (advancing_)
      return; // a body of this stream is waiting for something itself
    advancing_ = true;
    while (!steps_.empty() && advance(steps_.front()))
      steps_.pop_front();
    advancing_ = false;
    try {
      retained_.release_done(stream_, steps_.empty());
    } catch (...) {
      keep(std::current_exception());
    }
  }

  std::string pending() const override {
    if (!steps_.empty())
      return name_ + " stream: " + std::to_string(steps_.size()) + " steps, first " + steps_.front().label;
    return retained_.is_empty() ? "" : name_ + " stream: work on the GPU";
  }

  void abandon(const std::string& cause) noexcept override {
    if (steps_.empty() && retained_.is_empty())
      return;
    const bool goes_on = role_ == Role::compute;
    if (!goes_on || !steps_.empty())
      keep(std::make_exception_ptr(Error(Status::FAILED, cause)));
    progress(); // with an error set, every step completes at once
    retained_.quarantine();
    if (goes_on)
      error_ = nullptr; // whoever waits has it
  }

private:
  struct Step {
    const char* label;
    Callable<bool()> run; ///< true when complete
  };

  void let_go() {
    impl::forget_instance(stream_); // before the stream ends
    if (is_own_)
      cudaStreamDestroy(stream_);
  }

  void push(const char* label, Callable<bool()> run) {
    steps_.push_back({label, std::move(run)});
    progress();
  }

  bool advance(Step& step) noexcept {
    try {
      return step.run();
    } catch (...) {
      keep(std::current_exception());
      return true;
    }
  }

  void run(Body body) {
    const auto kept = std::make_shared<Body>(std::move(body));
    retained_.add(kept);
    (*kept)({Device::cuda, stream_});
  }

  // Tasks of the host start when the device is there, with an error at once: peers count on them.
  bool may_start(Task& task, std::shared_ptr<CudaEventState>& before) {
    if (!task.is_stream_ordered() && !error_ && !is_reached(before))
      return false;
    task.mark_ready({Device::cuda, stream_});
    return true;
  }

  // Whether the device is at `event`, which is placed where it is null; it is where CUDA fails, with that error kept.
  bool is_reached(std::shared_ptr<CudaEventState>& event) {
    try {
      if (event == nullptr) {
        auto made = std::make_shared<CudaEventState>();
        made->place(stream_);
        event = std::move(made);
      }
      if (!event->poll())
        return false;
      if (event->error)
        keep(event->error);
    } catch (...) {
      keep(std::current_exception());
    }
    return true;
  }

  void keep(std::exception_ptr error) noexcept {
    if (!error_) // the first cause counts
      error_ = error;
  }

  bool is_over(bool done, std::exception_ptr error) {
    if (done && error)
      keep(error);
    return done || error_;
  }

  std::string name_;
  cudaStream_t stream_;
  bool is_own_;
  Role role_;
  std::deque<Step, Recycling<Step>> steps_;
  Retained retained_;
  std::exception_ptr error_;
  bool advancing_ = false;
};

cudaStream_t make_native(int priority) {
  impl::use_cuda_device();
  cudaStream_t stream = nullptr;
  check_cuda(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority), "a stream");
  return stream;
}

int highest_priority() {
  int least = 0, greatest = 0;
  check_cuda(cudaDeviceGetStreamPriorityRange(&least, &greatest), "priorities of streams");
  return greatest;
}

// Of the process; outlives objects that end with it.
const std::shared_ptr<CudaStream>& cuda_compute_stream() {
  static const auto& stream = *new auto(std::make_shared<CudaStream>("compute", make_native(0), true, Role::compute));
  return stream;
}

} // namespace

std::shared_ptr<Stream> compute_stream(Device device) {
  static const auto host = make_host_compute_stream();
  if (device == Device::host)
    return host;
  require_device(device, "compute_stream");
  return cuda_compute_stream();
}

void* native_compute_stream() {
  require_device(Device::cuda, "native_compute_stream");
  return cuda_compute_stream()->native();
}

void set_compute_stream(void* native) {
  require_device(Device::cuda, "set_compute_stream");
  if (native != nullptr)
    cuda_compute_stream()->move_to(static_cast<cudaStream_t>(native), false);
  else if (!cuda_compute_stream()->is_own())
    cuda_compute_stream()->move_to(make_native(0), true);
}

std::shared_ptr<Stream> make_queue(Device device, std::string name) {
  if (device == Device::host)
    return make_host_queue(std::move(name));
  require_device(device, "make_queue");
  return std::make_shared<CudaStream>(std::move(name), make_native(highest_priority()), true, Role::queue);
}

void copy(const Execution& execution, const void* from, void* to, std::int64_t bytes) {
  if (bytes == 0 || from == to)
    return;
  const auto size = static_cast<std::size_t>(bytes);
  if (execution.device == Device::host)
    std::memmove(to, from, size);
  else
    check_cuda(cudaMemcpyAsync(to, from, size, cudaMemcpyDefault, static_cast<cudaStream_t>(execution.native)),
               "a copy of " + std::to_string(bytes) + " bytes");
}

void copy_now(Device device, const void* from, void* to, std::int64_t bytes) {
  const auto stream = compute_stream(device);
  if (device != Device::host)
    synchronize(stream->record(),
                "copy"); // polls: CUDA itself blocks where memory is not pinned, and peers wait for us
  stream->launch("copy", [=](const Execution& execution) { copy(execution, from, to, bytes); });
  synchronize(stream->record(), "copy");
}

Event record(const Execution& execution) {
  if (execution.device == Device::host)
    return {};
  auto state = std::make_shared<CudaEventState>();
  state->place(static_cast<cudaStream_t>(execution.native));
  return Event(state);
}

void wait(const Execution& execution, const Event& event) {
  if (event.native() != nullptr)
    check_cuda(
        cudaStreamWaitEvent(static_cast<cudaStream_t>(execution.native), static_cast<cudaEvent_t>(event.native()), 0),
        "a wait for an event");
}

bool is_device_memory(const void* address) {
  cudaPointerAttributes found{};
  if (address == nullptr || cudaPointerGetAttributes(&found, address) != cudaSuccess)
    return false;
  return found.type == cudaMemoryTypeDevice || found.type == cudaMemoryTypeManaged;
}

} // namespace ostraka::runtime
