// SPDX-License-Identifier: Apache-2.0
// Ordered queues of work. Every kernel and every copy of the library goes through Stream::launch, so the same code runs
// on hosts and on devices. Source: design section 3, "Streams".
#pragma once

#include <ostraka/base/callable.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/runtime/execution.hpp>
#include <ostraka/runtime/task.hpp>

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

namespace ostraka::runtime {

/// A point in a stream. Copies refer to the same point; a default-constructed event is complete.
class OSTRAKA_API Event {
public:
  struct State {
    virtual ~State() = default;
    /// Whether the point is reached; asks the device where it is in a stream of one.
    virtual bool poll() { return done; }
    /// The cudaEvent_t, which other streams can wait for, once it stands in its stream; else null.
    virtual void* native() const { return nullptr; }

    bool done = false;
    std::exception_ptr error;
  };

  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool is_done() const { return state_ == nullptr || state_->poll(); }
  /// Why the work before this point did not complete; null when it did.
  std::exception_ptr error() const { return state_ == nullptr ? nullptr : state_->error; }
  /// A cudaEvent_t once it stands in a stream of a device; else null.
  void* native() const { return state_ == nullptr ? nullptr : state_->native(); }

private:
  std::shared_ptr<State> state_;
};

class OSTRAKA_API Stream {
public:
  using Body = Callable<void(const Execution&)>;

  virtual ~Stream() = default;

  virtual Device device() const = 0;

  /// Queues a kernel or copy. `label`, a string that outlives it, names it in traces and in time-outs.
  virtual void launch(const char* label, Body body) = 0;
  /// Queues a communication task that the caller has given to its communicator before.
  virtual void submit(std::shared_ptr<Task> task) = 0;
  /// Later work of this stream waits for `event`.
  virtual void wait(const Event& event) = 0;
  /// The point after everything queued so far.
  virtual Event record() = 0;
  /// Returns once everything queued so far has gone to the device, so that what callers put on its native stream comes
  /// behind it. Never waits for the device, but for peers where hosts carry what is waited for. Rethrows what has
  /// failed so far, which is then forgotten. TIME_OUT. On hosts there is nothing to do.
  virtual void hand_over() {}
};

/// The compute stream of a host: the caller's thread. launch() runs at once; submit() and wait() return when complete
/// and rethrow what failed.
OSTRAKA_API std::shared_ptr<Stream> make_host_compute_stream();

/// A communication stream of a host: a queue that advances in the wait loop.
OSTRAKA_API std::shared_ptr<Stream> make_host_queue(std::string name);

/// Waits until `event` is complete and rethrows its error. `what` names the wait in a time-out.
OSTRAKA_API void synchronize(const Event& event, const char* what);

} // namespace ostraka::runtime
