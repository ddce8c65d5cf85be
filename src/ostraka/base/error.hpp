// SPDX-License-Identifier: Apache-2.0
// The one exception of the library and the one way to throw it.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/base/status.hpp>

#include <sstream>
#include <stdexcept>
#include <string>

namespace ostraka {

/// Thrown by every operation that fails. what() names the operation, what was expected and what was found.
class OSTRAKA_API Error : public std::runtime_error {
public:
  Error(Status status, const std::string& message);
  Error(const Error&) = default;
  ~Error() override;

  Status status() const noexcept { return status_; }

private:
  Status status_;
};

/// Throws Error with the concatenated parts as message.
template <class... Parts>
[[noreturn]] void fail(Status status, const Parts&... parts) {
  std::ostringstream text;
  (text << ... << parts);
  throw Error(status, text.str());
}

/// Throws Error unless `condition` holds. The message is put together only then, but its parts are evaluated always.
template <class... Parts>
void expect(bool condition, Status status, const Parts&... parts) {
  if (!condition)
    fail(status, parts...);
}

} // namespace ostraka
