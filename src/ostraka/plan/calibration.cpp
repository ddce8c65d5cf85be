// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/plan/calibration.hpp>

#include <algorithm>
#include <cmath>

namespace ostraka::plan {

// Weighted least squares of t = a + b x with weights 1 / t^2.
Link fit(std::span<const Timing> timings) {
  double w = 0, wx = 0, wxx = 0, wt = 0, wxt = 0;
  for (const Timing& timing : timings) {
    expect(timing.bytes > 0 && timing.seconds > 0, Status::INVALID_ARGUMENT,
           "expected bytes > 0 and seconds > 0 of an operation, found ", timing.bytes, " and ", timing.seconds);
    const double x = static_cast<double>(timing.bytes), weight = 1 / (timing.seconds * timing.seconds);
    w += weight;
    wx += weight * x;
    wxx += weight * x * x;
    wt += weight * timing.seconds;
    wxt += weight * x * timing.seconds;
  }
  const double determinant = w * wxx - wx * wx;
  expect(timings.size() >= 2 && determinant > 1e-9 * w * wxx, Status::INVALID_ARGUMENT,
         "expected times of operations of at least two sizes, found ", timings.size(), " times");
  double latency = (wxx * wt - wx * wxt) / determinant, slope = (w * wxt - wx * wt) / determinant;
  if (latency < 0) { // then the best of those without latency
    latency = 0;
    slope = wxt / wxx;
  }
  expect(slope > 0, Status::INVALID_ARGUMENT, "expected operations on more bytes to take longer");
  return {latency, 1 / slope};
}

double interpolate(std::span<const Timing> timings, double bytes) {
  if (timings.empty() || bytes <= 0)
    return 0;
  const auto above = std::lower_bound(timings.begin(), timings.end(), bytes, [](const Timing& timing, double value) {
    return static_cast<double>(timing.bytes) < value;
  });
  if (above == timings.begin())
    return above->seconds;
  const Timing& last = *(above - 1);
  const double ratio = bytes / static_cast<double>(last.bytes);
  if (above == timings.end())
    return last.seconds * ratio;
  const double power = std::log(above->seconds / last.seconds) /
                       std::log(static_cast<double>(above->bytes) / static_cast<double>(last.bytes));
  return last.seconds * std::pow(ratio, power);
}

std::optional<double> measured_seconds(const Link& link, Collective kind, int ranks, std::int64_t bytes) {
  const Link::Measured& measured = link.measured;
  const std::vector<Timing>* timings = kind == Collective::allgather        ? &measured.allgather
                                       : kind == Collective::reduce_scatter ? &measured.reduce_scatter
                                       : kind == Collective::allreduce      ? &measured.allreduce
                                                                            : nullptr;
  if (timings == nullptr || timings->empty() || ranks < 2 || measured.ranks < 2)
    return std::nullopt;
  const auto sent = [](int of) { return static_cast<double>(of - 1) / of; };
  return interpolate(*timings, static_cast<double>(bytes) * sent(ranks) / sent(measured.ranks));
}

} // namespace ostraka::plan
