// SPDX-License-Identifier: Apache-2.0
// From times of operations that were measured to the model of a machine. Pure.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/plan/report.hpp>
#include <ostraka/plan/request.hpp>

#include <cstdint>
#include <optional>
#include <span>

namespace ostraka::plan {

/// The latency and bandwidth with which latency_s + bytes / bandwidth has the least sum of squared relative errors over
/// `timings`, latency_s >= 0: small operations count as much as large ones. Throws INVALID_ARGUMENT for fewer than two
/// sizes, and times that do not grow with them.
OSTRAKA_API Link fit(std::span<const Timing> timings);

/// What an operation on `bytes` takes after `timings`, ascending in bytes: between two of them a power of the bytes
/// through both, below the first as long as that, above the last in proportion. Nothing was measured: 0.
OSTRAKA_API double interpolate(std::span<const Timing> timings, double bytes);

/// What a collective of `ranks` ranks takes on `link` after what was measured there, if its kind was. Measurements of
/// another number of ranks count by what one rank sends: (ranks - 1) / ranks of the whole.
OSTRAKA_API std::optional<double> measured_seconds(const Link& link, Collective kind, int ranks, std::int64_t bytes);

} // namespace ostraka::plan
