// SPDX-License-Identifier: Apache-2.0
// A piece of communication that a stream hands to a communicator: started when both have reached it, then polled.
#pragma once

#include <exception>

namespace ostraka::runtime {

class Task {
public:
  virtual ~Task() = default;

  /// The stream has done everything before this task.
  void mark_ready() { ready_ = true; }
  bool is_ready() const { return ready_; }

  void finish(std::exception_ptr error = nullptr) {
    error_ = error;
    done_ = true;
  }
  bool is_done() const { return done_; }
  std::exception_ptr error() const { return error_; }

private:
  bool ready_ = false;
  bool done_ = false;
  std::exception_ptr error_;
};

} // namespace ostraka::runtime
