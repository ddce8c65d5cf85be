// SPDX-License-Identifier: Apache-2.0
// The one wait loop of the library. Whoever waits advances everything that is in flight in the process: requests of
// every communicator and ready steps of every queue. Anything else can deadlock (design section 3, "Streams").
#pragma once

#include <ostraka/base/export.hpp>

#include <functional>
#include <string>
#include <string_view>

namespace ostraka::runtime {

/// Something that advances when polled: a communicator, a host queue. Registered for its whole life.
class OSTRAKA_API Progressable {
public:
  Progressable();
  virtual ~Progressable();
  Progressable(const Progressable&) = delete;
  Progressable& operator=(const Progressable&) = delete;

  /// Starts what can start and completes what is complete. Never blocks, never throws: failures go to the waiter.
  virtual void progress() noexcept = 0;
  /// What is not complete, for messages; empty when idle.
  virtual std::string pending() const = 0;
  /// Gives up everything in flight after `cause`; later use fails with it. Memory in flight is never reused.
  virtual void abandon(const std::string& cause) noexcept = 0;
};

/// Advances everything once.
OSTRAKA_API void progress_all() noexcept;

/// Advances everything until `done()` is true. After OSTRAKA_TIMEOUT_S seconds throws TIME_OUT naming `what` and what
/// is pending, and abandons everything in flight.
OSTRAKA_API void wait_until(const std::function<bool()>& done, std::string_view what);

} // namespace ostraka::runtime
