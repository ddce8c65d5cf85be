// SPDX-License-Identifier: Apache-2.0
// The ranks of the test program.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <random>

namespace ostraka::test {

/// This rank and the number of ranks in MPI_COMM_WORLD, known once tests run.
inline int rank = -1;
inline int ranks = 0;

class World final : public testing::Environment {
public:
  void SetUp() override {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  }
};

inline testing::Environment* const world = testing::AddGlobalTestEnvironment(new World);

/// A new seed, equal on all ranks and printed. Collective.
inline std::uint64_t fresh_seed(const char* test) {
  std::uint64_t seed = std::random_device{}();
  MPI_Bcast(&seed, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  if (rank == 0)
    std::printf("%s: seed %llu\n", test, static_cast<unsigned long long>(seed));
  return seed;
}

} // namespace ostraka::test
