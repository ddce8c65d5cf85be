// SPDX-License-Identifier: Apache-2.0
#include "wall.hpp"

namespace ostraka::capi {

namespace {

thread_local std::string last_error;

} // namespace

void remember(const char* function, const char* text) noexcept {
  try {
    last_error = std::string(function) + ": " + text;
  } catch (...) {
    last_error.clear(); // no memory for the text; the status still tells the family
  }
}

#define OSTRAKA_STATUS_MATCHES(name, number, meaning) static_assert(OSTRAKA_##name == number);
OSTRAKA_STATUS_LIST(OSTRAKA_STATUS_MATCHES)
#undef OSTRAKA_STATUS_MATCHES

} // namespace ostraka::capi

extern "C" {

const char* ostraka_status_name(ostraka_status_t status) { return ostraka::name(static_cast<ostraka::Status>(status)); }

const char* ostraka_status_meaning(ostraka_status_t status) {
  return ostraka::meaning(static_cast<ostraka::Status>(status));
}

const char* ostraka_last_error(void) { return ostraka::capi::last_error.c_str(); }

void ostraka_error_clear(void) { ostraka::capi::last_error.clear(); }
}
