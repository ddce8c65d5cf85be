// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/base/error.hpp>

#include <gtest/gtest.h>

#include <initializer_list>
#include <string>

namespace ostraka::test {

/// Expects that `action` throws an Error of `status` with all `parts` in its text.
template <class Action>
void expect_error(Status status, Action&& action, std::initializer_list<std::string> parts = {}) {
  try {
    action();
    ADD_FAILURE() << "expected " << name(status) << ", nothing was thrown";
  } catch (const Error& error) {
    EXPECT_STREQ(name(error.status()), name(status)) << error.what();
    for (const std::string& part : parts)
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
  }
}

} // namespace ostraka::test
