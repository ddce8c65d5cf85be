// SPDX-License-Identifier: Apache-2.0
// A piece of communication that a stream hands to a communicator: started when both have reached it, then polled.
#pragma once

#include <ostraka/runtime/execution.hpp>

#include <exception>

namespace ostraka::runtime {

class Task {
public:
  virtual ~Task() = default;

  /// The stream has done everything before this task, or, where the task is ordered by the stream, queued it.
  void mark_ready(const Execution& execution = {}) {
    execution_ = execution;
    ready_ = true;
  }
  bool is_ready() const { return ready_; }
  /// Of the stream that has marked it ready.
  const Execution& execution() const { return execution_; }
  /// Whether the task queues its work on the stream that it is handed and is then done, as far as hosts see. Others
  /// work on the host: they start when the stream is there, which waits until they are done.
  virtual bool is_stream_ordered() const { return false; }

  void finish(std::exception_ptr error = nullptr) {
    error_ = error;
    done_ = true;
  }
  bool is_done() const { return done_; }
  std::exception_ptr error() const { return error_; }

private:
  Execution execution_;
  bool ready_ = false;
  bool done_ = false;
  std::exception_ptr error_;
};

} // namespace ostraka::runtime
