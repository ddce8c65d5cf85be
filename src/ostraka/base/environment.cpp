// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/environment.hpp>
#include <ostraka/base/error.hpp>

#include <cstdlib>
#include <limits>
#include <string_view>

namespace ostraka::environment {

bool check() {
  const char* text = std::getenv("OSTRAKA_CHECK");
  return text != nullptr && std::string_view(text) != "0" && std::string_view(text) != "";
}

std::int64_t count_limit() {
  constexpr std::int64_t largest = std::numeric_limits<std::int32_t>::max();
  const char* text = std::getenv("OSTRAKA_COUNT_LIMIT");
  if (text == nullptr || *text == '\0')
    return largest;
  char* end = nullptr;
  const std::int64_t limit = std::strtoll(text, &end, 10);
  expect(*end == '\0' && limit >= 1 && limit <= largest, Status::INVALID_ARGUMENT,
         "OSTRAKA_COUNT_LIMIT: expected a number from 1 to ", largest, ", found '", text, "'");
  return limit;
}

double timeout_seconds() {
  const char* text = std::getenv("OSTRAKA_TIMEOUT_S");
  if (text == nullptr || *text == '\0')
    return 300;
  char* end = nullptr;
  const double seconds = std::strtod(text, &end);
  expect(*end == '\0' && seconds >= 0, Status::INVALID_ARGUMENT,
         "OSTRAKA_TIMEOUT_S: expected a number of seconds >= 0, found '", text, "'");
  return seconds;
}

int log_level() {
  const char* text = std::getenv("OSTRAKA_LOG_LEVEL");
  const std::string_view level = text == nullptr ? "none" : text;
  constexpr std::string_view names[] = {"none", "warn", "info"};
  for (int i = 0; i < 3; ++i)
    if (level == names[i])
      return i;
  fail(Status::INVALID_ARGUMENT, "OSTRAKA_LOG_LEVEL: expected none, warn or info, found '", level, "'");
}

std::string trace_file() {
  const char* text = std::getenv("OSTRAKA_TRACE");
  return text == nullptr ? "" : text;
}

} // namespace ostraka::environment
