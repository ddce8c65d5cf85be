// SPDX-License-Identifier: Apache-2.0
// Timings that ranks agree on, and what becomes of them on a machine with neighbours. All functions are collective over
// MPI_COMM_WORLD unless they say otherwise.
#pragma once

#include <functional>
#include <vector>

namespace ostraka::bench {

using Operation = std::function<void()>;

struct Sample {
  double us = 0;        ///< of one operation, on the slowest rank
  double cpu_share = 0; ///< of the time, how much the cores worked for these processes
};
Sample sample(const Operation& operation, int repeats);

/// So many that a sample is long beside the clock and the barrier.
int choose_repeats(const Operation& operation);

/// What the same moments saw of several operations: us[operation][round].
struct Rounds {
  std::vector<std::vector<double>> us;
  int discarded = 0;   ///< rounds that others disturbed: a CPU share below 0.97, or cores that moved (cores.hpp)
  bool is_calm = true; ///< false: nearly all were, and these are only the least disturbed
  std::vector<double> line_ns; ///< [round] line_round_trip_ns()

  double median_line_ns() const;

  int size() const { return static_cast<int>(us.front().size()); }
  /// The median over the rounds of what `quantity` makes of a round. Local.
  double median(const std::function<double(int round)>& quantity) const;
  double median(int operation) const;
};
/// Each operation once a round, in an order that turns, until there are `rounds` undisturbed ones, with patience.
Rounds measure(const std::vector<Operation>& operations, const std::vector<int>& repeats, int rounds);

} // namespace ostraka::bench
