// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdlib>
#include <string_view>

namespace ostraka::test {

/// How many random cases a test runs: ten times the usual number under scripts/test --full.
inline int rounds(int usual) {
  const char* full = std::getenv("OSTRAKA_TEST_FULL");
  return full != nullptr && std::string_view(full) == "1" ? 10 * usual : usual;
}

} // namespace ostraka::test
