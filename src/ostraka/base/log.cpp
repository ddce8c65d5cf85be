// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/log.hpp>

#include <cstdio>

namespace ostraka::log {

namespace {

void line(int level, const char* label, std::string_view text) {
  static const int asked = environment::log_level();
  if (asked >= level)
    std::fprintf(stderr, "ostraka %s: %.*s\n", label, static_cast<int>(text.size()), text.data());
}

} // namespace

void warn(std::string_view text) { line(1, "warn", text); }
void info(std::string_view text) { line(2, "info", text); }

} // namespace ostraka::log
