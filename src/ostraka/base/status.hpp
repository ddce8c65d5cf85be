// SPDX-License-Identifier: Apache-2.0
// The status families: one list gives the C++ enum, the names and the meanings, so they cannot drift apart.
// The numbers are part of the C ABI (capi/include/ostraka/status.h): never reuse or renumber one.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstdint>

// X(name, number, meaning)
#define OSTRAKA_STATUS_LIST(X)                                                                                         \
  X(OK, 0, "success")                                                                                                  \
  X(INVALID_ARGUMENT, 10, "an argument is outside of what the operation accepts")                                      \
  X(INVALID_STATE, 11, "the operation is not allowed in the present phase or state")                                   \
  X(INVALID_HANDLE, 12, "a handle is null, destroyed or of another kind")                                              \
  X(SHAPE_MISMATCH, 13, "a shape, count or layout differs from the expected one")                                      \
  X(TYPE_MISMATCH, 14, "a data type differs from the expected one")                                                    \
  X(NOT_SUPPORTED, 20, "the operation is legal but not provided by this version or build")                             \
  X(OUT_OF_MEMORY, 30, "memory could not be allocated")                                                                \
  X(INPUT_OUTPUT, 40, "a file could not be read or written")                                                           \
  X(COMMUNICATION, 50, "the message passing library reported an error")                                                \
  X(RANKS_DISAGREE, 51, "ranks called a collective operation with different arguments")                                \
  X(TIME_OUT, 52, "a peer did not arrive in time")                                                                     \
  X(USER_FAILURE, 53, "the caller reported a failure of its own inside a step")                                        \
  X(FAILED, 60, "the object failed earlier and can only be destroyed")                                                 \
  X(INTERNAL, 90, "a defect of the library")

namespace ostraka {

enum class Status : std::int32_t {
#define OSTRAKA_STATUS_ENTRY(name, number, meaning) name = number,
  OSTRAKA_STATUS_LIST(OSTRAKA_STATUS_ENTRY)
#undef OSTRAKA_STATUS_ENTRY
};

/// The name of a status as written above, "UNKNOWN" for a number that is none.
OSTRAKA_API const char* name(Status status) noexcept;

/// One sentence that says what the family means.
OSTRAKA_API const char* meaning(Status status) noexcept;

} // namespace ostraka
