// SPDX-License-Identifier: Apache-2.0
// A process that sets OSTRAKA_TRACE leaves a trace of its rank when it stops the library. Starts and stops it itself.
#include "trace_folder.hpp"
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/lifetime.hpp>
#include <ostraka/runtime/stream.hpp>
#include <ostraka/runtime/trace.hpp>

#include <mpi.h>

namespace ostraka::runtime::test {
namespace {

void launch(const char* label) {
  make_host_compute_stream()->launch(label, [](const Execution&) {});
}

TEST(TraceOfAProcess, FromInitializeToFinalize) {
  using Names = std::vector<std::string>;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (const char* expected = std::getenv("OSTRAKA_TEST_RANKS")) {
    ASSERT_EQ(std::to_string(ranks), expected) << "is mpiexec of the same MPI?";
  }
  const TraceFolder folder;
  const std::string file = "trace." + std::to_string(rank) + ".json";
  launch("too early");
  initialize();
  initialize();
  launch("before the mesh");
  mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  mesh::DeviceMesh::create(MPI_COMM_SELF, {1}); // the first mesh names the rank
  launch("after the mesh");
  finalize();
  EXPECT_EQ(folder.files(), Names{});
  launch("at the end");
  finalize();
  launch("too late");
  EXPECT_EQ(folder.files(), Names{file});
  const auto events = folder.read(file);
  for (const auto& event : events)
    EXPECT_EQ(event.at("pid"), rank);
  std::vector<Found> launched = complete_events(events);
  std::erase_if(launched, [](const Found& event) { return event.track != "compute"; }); // meshes communicate
  EXPECT_EQ(names(launched), (Names{"before the mesh", "after the mesh", "at the end"}));
}

} // namespace
} // namespace ostraka::runtime::test

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  testing::InitGoogleTest(&argc, argv);
  int failed = RUN_ALL_TESTS();
  MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  MPI_Finalize();
  return failed;
}
