// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>

namespace ostraka {

const char* name(Status status) noexcept {
  switch (status) {
#define OSTRAKA_STATUS_ENTRY(entry, number, text)                                                                      \
  case Status::entry:                                                                                                  \
    return #entry;
    OSTRAKA_STATUS_LIST(OSTRAKA_STATUS_ENTRY)
#undef OSTRAKA_STATUS_ENTRY
  }
  return "UNKNOWN";
}

const char* meaning(Status status) noexcept {
  switch (status) {
#define OSTRAKA_STATUS_ENTRY(entry, number, text)                                                                      \
  case Status::entry:                                                                                                  \
    return text;
    OSTRAKA_STATUS_LIST(OSTRAKA_STATUS_ENTRY)
#undef OSTRAKA_STATUS_ENTRY
  }
  return "a number that is no status of this version";
}

Error::Error(Status status, const std::string& message) : std::runtime_error(message), status_(status) {}
Error::~Error() = default;

} // namespace ostraka
