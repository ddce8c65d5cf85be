// SPDX-License-Identifier: Apache-2.0
// OSTRAKA_TRACE=file: which operation ran when, as a Chrome trace (chrome://tracing, ui.perfetto.dev), one file a rank.
// For the thread that uses the library. An event costs 56 bytes, and its name again where that is longer than 15
// characters, up to the end of the process (more for a moment while the vector of events grows).
#pragma once

#include <ostraka/base/export.hpp>

#include <chrono>
#include <string>
#include <string_view>

namespace ostraka::runtime::trace {

using Clock = std::chrono::steady_clock;

namespace impl {
extern OSTRAKA_API bool tracing;
} // namespace impl

/// Whether events are recorded. One load: ask before the clock is read or a name is put together.
inline bool is_tracing() noexcept { return impl::tracing; }

/// Adds an event to `track`, a row of the picture: the name of a stream or of a communicator. Events of one track must
/// nest or lie apart, in any order. Does nothing when off.
OSTRAKA_API void record(std::string_view track, std::string name, Clock::time_point begin,
                        Clock::time_point end) noexcept;

/// The rank in the file's name and the process of the events; 0 until known, the first call counts.
OSTRAKA_API void set_rank(int rank);

/// Starts when OSTRAKA_TRACE is set; called by initialize(). The same file as before continues what it holds.
OSTRAKA_API void start();

/// Writes the file and stops; called by the last finalize().
OSTRAKA_API void finish() noexcept;

/// Writes what is there, as a wait does that times out. A failure is a line of log::warn.
OSTRAKA_API void write() noexcept;

} // namespace ostraka::runtime::trace
