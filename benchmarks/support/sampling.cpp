// SPDX-License-Identifier: Apache-2.0
#include "sampling.hpp"

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <ctime>
#include <thread>

namespace ostraka::bench {

namespace {

constexpr double least_sample_us = 200, least_cpu_share = 0.97;
constexpr int least_calm_rounds = 3, most_tries = 5;
constexpr double most_seconds = 20; ///< of one measurement

double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of the rank that others disturbed most; where ranks share cores, of all cores.
double share_of(double seconds, double cpu) {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
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
  Rounds all{std::vector<std::vector<double>>(count)}, calm = all;
  double seconds = 0;
  std::size_t turn = 0;
  while (calm.size() < rounds && all.size() < most_tries * rounds && seconds < most_seconds) {
    double share = 1;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t which = (i + turn) % count;
      const Sample taken = sample(operations[which], repeats[which]);
      all.us[which].push_back(taken.us);
      share = std::min(share, taken.cpu_share);
      seconds += 1e-6 * taken.us * repeats[which];
    }
    ++turn;
    if (share >= least_cpu_share)
      for (std::size_t i = 0; i < count; ++i)
        calm.us[i].push_back(all.us[i].back());
  }
  calm.discarded = all.size() - calm.size();
  all.is_calm = false;
  return calm.size() >= std::min(least_calm_rounds, rounds) ? calm : all;
}

double Rounds::median(const std::function<double(int round)>& quantity) const {
  std::vector<double> values;
  for (int round = 0; round < size(); ++round)
    values.push_back(quantity(round));
  return median_of(std::move(values));
}

double Rounds::median(int operation) const { return median_of(us[static_cast<std::size_t>(operation)]); }

} // namespace ostraka::bench
