// SPDX-License-Identifier: Apache-2.0
#include "cores.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <ctime>

namespace ostraka::bench {

namespace {

constexpr double least_sample_us = 200, least_cpu_share = 0.97, most_line_change = 1.6;
constexpr int least_calm_rounds = 3, most_tries = 5;
constexpr double most_seconds = 10; ///< of one measurement

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of the rank that others disturbed most; where ranks share cores, of all cores.
double share_of(double seconds, double cpu) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int cores = num_cores();
  if (ranks <= cores) {
    double share = cpu / seconds;
    MPI_Allreduce(MPI_IN_PLACE, &share, 1, MPI_DOUBLE, MPI_MIN, MPI_COMM_WORLD);
    return share;
  }
  MPI_Allreduce(MPI_IN_PLACE, &cpu, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return cpu / (seconds * cores);
}

double median_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Round {
  double cpu_share;
  std::vector<double> us; ///< of each operation
  double line_ns = 0;
};

// Operations of a round that found the cores in different places cannot be compared.
bool has_moved(double before, double after) {
  return std::max(before, after) > most_line_change * std::min(before, after);
}

// The `calm` undisturbed ones, or, where those are too few, the `least` least disturbed.
Rounds calmest(std::vector<Round> all, int calm, int least) {
  const bool is_calm = calm >= std::min(least_calm_rounds, least);
  std::stable_sort(all.begin(), all.end(), [](const Round& a, const Round& b) { return a.cpu_share > b.cpu_share; });
  const std::size_t kept = std::min(all.size(), static_cast<std::size_t>(is_calm ? calm : least));
  Rounds rounds{{}, static_cast<int>(all.size() - kept), is_calm, {}};
  rounds.us.resize(all.front().us.size());
  for (std::size_t i = 0; i < kept; ++i) {
    for (std::size_t k = 0; k < rounds.us.size(); ++k)
      rounds.us[k].push_back(all[i].us[k]);
    rounds.line_ns.push_back(all[i].line_ns);
  }
  return rounds;
}

} // namespace

Sample sample(const Operation& operation, int repeats) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime(), cpu_start = cpu_seconds();
  for (int i = 0; i < repeats; ++i)
    operation();
  double seconds = MPI_Wtime() - start;
  const double share = share_of(seconds, cpu_seconds() - cpu_start);
  MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return {1e6 * seconds / repeats, share};
}

int choose_repeats(const Operation& operation) {
  for (int repeats = 1;; repeats *= 2) {
    double best = sample(operation, repeats).us;
    for (int i = 0; i < 2; ++i) // the quickest of three, as a disturbance only slows
      best = std::min(best, sample(operation, repeats).us);
    if (best * repeats >= least_sample_us)
      return repeats;
  }
}

Rounds measure(const std::vector<Operation>& operations, const std::vector<int>& repeats, int rounds) {
  const std::size_t count = operations.size();
  std::vector<Round> all;
  int calm = 0;
  double seconds = 0;
  while (calm < rounds && static_cast<int>(all.size()) < most_tries * rounds && seconds < most_seconds) {
    Round round{1, std::vector<double>(count), line_round_trip_ns()};
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t which = (i + all.size()) % count;
      const Sample taken = sample(operations[which], repeats[which]);
      round.us[which] = taken.us;
      round.cpu_share = std::min(round.cpu_share, taken.cpu_share);
      seconds += 1e-6 * taken.us * repeats[which];
    }
    if (has_moved(round.line_ns, line_round_trip_ns()))
      round.cpu_share = 0;
    calm += round.cpu_share >= least_cpu_share ? 1 : 0;
    all.push_back(std::move(round));
  }
  return calmest(std::move(all), calm, rounds);
}

double Rounds::median(const std::function<double(int round)>& quantity) const {
  std::vector<double> values;
  for (int round = 0; round < size(); ++round)
    values.push_back(quantity(round));
  return median_of(std::move(values));
}

double Rounds::median_line_ns() const { return median_of(line_ns); }

double Rounds::median(int operation) const { return median_of(us[static_cast<std::size_t>(operation)]); }

} // namespace ostraka::bench
