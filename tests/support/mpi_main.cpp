// SPDX-License-Identifier: Apache-2.0
// main() of the tests that run on several ranks: starts MPI and the library, tags failures with the rank, and makes the
// result that of all ranks together.
#include <ostraka/runtime/lifetime.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

namespace {

class RankTaggedFailures final : public testing::EmptyTestEventListener {
public:
  explicit RankTaggedFailures(int rank) : rank_(rank) {}
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed())
      std::fprintf(stderr, "[rank %d] %s:%d: %s\n", rank_, result.file_name() != nullptr ? result.file_name() : "?",
                   result.line_number(), result.message());
  }

private:
  int rank_;
};

// mpiexec of another MPI starts single ranks that would all pass.
bool has_expected_ranks(int ranks) {
  const char* expected = std::getenv("OSTRAKA_TEST_RANKS");
  return expected == nullptr || std::to_string(ranks) == expected;
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  testing::InitGoogleTest(&argc, argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  int failed = 1;
  if (has_expected_ranks(ranks)) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    if (rank != 0)
      delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new RankTaggedFailures(rank));
    const ostraka::runtime::Session session;
    failed = RUN_ALL_TESTS();
  } else {
    std::fprintf(stderr, "expected %s ranks, found %d: is mpiexec of the same MPI?\n", std::getenv("OSTRAKA_TEST_RANKS"),
                 ranks);
  }
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
