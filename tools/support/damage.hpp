// SPDX-License-Identifier: Apache-2.0
// A file that can be read but is not what it should be.
#pragma once

#include <ostraka/base/error.hpp>

#include <string>

namespace ostraka::tool {

/// Makes the exit status 1, where other errors make it 2.
class Damage : public Error {
public:
  explicit Damage(const std::string& message) : Error(Status::INPUT_OUTPUT, message) {}
};

/// Throws Damage with the concatenated parts unless `condition` holds.
template <class... Parts>
void expect_whole(bool condition, const Parts&... parts) {
  if (condition)
    return;
  std::ostringstream text;
  (text << ... << parts);
  throw Damage(text.str());
}

/// Runs `body`; errors that do not name the file do then.
template <class Body>
auto naming(const std::string& path, Body&& body) {
  try {
    return body();
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find(path) != std::string::npos)
      throw;
    fail(error.status(), path, ": ", text);
  }
}

} // namespace ostraka::tool
