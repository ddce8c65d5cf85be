// SPDX-License-Identifier: Apache-2.0
// Start and stop of the library in a process. Kokkos belongs to whoever initialised it first.
#pragma once

#include <ostraka/base/export.hpp>

namespace ostraka::runtime {

/// Starts the library: counted, local. Initialises Kokkos when nobody has. Throws INVALID_STATE when Kokkos was already
/// finalised, since it cannot start twice in a process.
OSTRAKA_API void initialize();

/// Undoes one initialize(); the last one finalises Kokkos if we started it. Throws INVALID_STATE when not initialised.
OSTRAKA_API void finalize();

OSTRAKA_API bool is_initialized() noexcept; ///< between the first initialize() and its finalize()

/// Throws INVALID_STATE naming `operation` when the library is not initialised.
OSTRAKA_API void require_initialized(const char* operation);

/// Throws INVALID_STATE naming `operation` when the library or its Kokkos was finalised, or never started.
OSTRAKA_API void require_running(const char* operation);

/// initialize() and finalize() as a scope.
class Session {
public:
  Session() { initialize(); }
  ~Session() { finalize(); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
};

} // namespace ostraka::runtime
