// SPDX-License-Identifier: Apache-2.0
// The exception wall: the only place where exceptions end.
#pragma once

#include <ostraka/base/error.hpp>
#include <ostraka/status.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <string>

namespace ostraka::capi {

/// Keeps the text of a failure for ostraka_last_error of this thread.
void remember(const char* function, const char* text) noexcept;

/// Runs `body`; turns what it throws into a status and keeps the text.
template <class Body>
ostraka_status_t wall(const char* function, Body&& body) noexcept {
  try {
    body();
    return OSTRAKA_OK;
  } catch (const Error& error) {
    remember(function, error.what());
    return static_cast<ostraka_status_t>(error.status());
  } catch (const std::bad_alloc&) {
    remember(function, "memory could not be allocated");
    return OSTRAKA_OUT_OF_MEMORY;
  } catch (const std::exception& error) {
    remember(function, error.what());
    return OSTRAKA_INTERNAL;
  } catch (...) {
    remember(function, "an unknown exception");
    return OSTRAKA_INTERNAL;
  }
}

/// Where a result goes; throws INVALID_ARGUMENT naming it when the caller passed null.
template <class T>
T& output(T* address, const char* argument) {
  expect(address != nullptr, Status::INVALID_ARGUMENT, "the address for '", argument, "' is null");
  return *address;
}

inline std::string text(const char* argument, const char* what) {
  expect(argument != nullptr, Status::INVALID_ARGUMENT, "'", what, "' is null");
  return argument;
}

/// A number from 0 to count - 1; the error says it as C counts and as Fortran does, since it reaches callers of both.
inline std::size_t index_of(const char* what, std::int64_t index, std::int64_t count) {
  expect(count > 0, Status::INVALID_ARGUMENT, "expected ", what, ", and there is none so far; found ", index,
         " (in Fortran ", index + 1, ")");
  expect(index >= 0 && index < count, Status::INVALID_ARGUMENT, "expected ", what, " from 0 to ", count - 1, ", found ",
         index, " (in Fortran from 1 to ", count, ", found ", index + 1, ")");
  return static_cast<std::size_t>(index);
}

} // namespace ostraka::capi
