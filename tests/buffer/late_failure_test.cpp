// SPDX-License-Identifier: Apache-2.0
// NCCL finds some errors when an operation is queued already: callers that waited for it have them all the same.
#include "support/double/double.hpp"
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"
#include "support/world.hpp"
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/buffer/flat_buffer.hpp>
#include <ostraka/layout/builders.hpp>

#include <string>

namespace ostraka::buffer::test {
namespace {

using namespace ostraka::test;

/// run(mesh, size) with a size that differs between the ranks, which nobody compares before.
template <class Run>
void expect_late_error(const std::string& operation, Run&& run) {
  const ScopedEnvironment unchecked("OSTRAKA_CHECK", "0"), limit("OSTRAKA_TIMEOUT_S", "20");
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {}, runtime::Device::cuda);
  const std::int64_t size = ranks * (rank == 0 ? 8 : 16);
  expect_error(Status::COMMUNICATION, [&] { run(mesh, size); }, {operation, "failed on the device", "make a new mesh"});
  EXPECT_NE(cuda_double::take_misuse(), "");
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(LateFailures, OfFlatBuffers) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  expect_late_error("flat buffer: reduce_scatter", [](const MeshPtr& mesh, std::int64_t size) {
    FlatBuffer(mesh, {{size}}, DType::f32).reduce_scatter();
  });
  expect_late_error("flat buffer: all_gather", [](const MeshPtr& mesh, std::int64_t size) {
    FlatBuffer(mesh, {{size}}, DType::f32).all_gather();
  });
}

TEST(LateFailures, OfRedistributions) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  expect_late_error("redistribute", [](const MeshPtr& mesh, std::int64_t size) {
    const auto buffer = DBuffer::empty(mesh, {layout::partial()}, {{size}}, DType::f32);
    static_cast<void>(buffer.redistribute({layout::replicate()}));
  });
}

// NCCL's own news, of an operation that all ranks made alike; what other lines do is not touched by it.
TEST(LateFailures, AreThoseOfTheOperationItself) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank needs no NCCL";
  const ScopedEnvironment unchecked("OSTRAKA_CHECK", "0"), limit("OSTRAKA_TIMEOUT_S", "20");
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {}, runtime::Device::cuda);
  FlatBuffer buffer(mesh, {{8 * ranks}}, DType::f32);
  cuda_double::fail_next_operation();
  expect_error(Status::COMMUNICATION, [&] { buffer.reduce_scatter(); }, {"flat buffer: reduce_scatter", "new mesh"});
  EXPECT_NO_THROW(buffer.all_gather()); // another communicator
  const auto whole = DBuffer::empty(mesh, {layout::shard()}, {{8 * ranks}}, DType::f32);
  EXPECT_NO_THROW(static_cast<void>(whole.allgather(0)));
  expect_error(Status::FAILED, [&] { buffer.reduce_scatter(); }, {"failed earlier"});
  MPI_Barrier(MPI_COMM_WORLD);
}

} // namespace
} // namespace ostraka::buffer::test
