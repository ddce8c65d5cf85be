// SPDX-License-Identifier: Apache-2.0
// Operations that repeat ask the system for no memory: on one rank and where ranks share a node. Element kernels are
// Kokkos's, which takes memory for each of them.
#include "buffer_test.hpp"
#include "support/allocations.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/buffer/execute.hpp>
#include <ostraka/comm/node/node_arena.hpp>

namespace ostraka::buffer::test {
namespace {

struct Steady : testing::Test {
  ScopedEnvironment unchecked{"OSTRAKA_CHECK", "0"};

  void SetUp() override {
    const MeshPtr mesh = mesh_of({ranks});
    if (mesh->device() != runtime::Device::host)
      GTEST_SKIP() << "streams of devices ask for memory";
    const DBuffer probe(mesh, {R}, reference_of({{8}}), DType::f32);
    int node = mesh->node(), different = 0;
    std::vector<int> all(static_cast<std::size_t>(ranks));
    MPI_Allgather(&node, 1, MPI_INT, all.data(), 1, MPI_INT, MPI_COMM_WORLD);
    for (const int other : all)
      different += other == all.front() ? 0 : 1;
    if (!counts_allocations() || (ranks > 1 && (different > 0 || !comm::node::locate(probe.data()))))
      GTEST_SKIP() << "messages ask for memory, and a sanitizer counts it itself";
  }
};

void expect_steady(const char* what, const std::function<void()>& operation) {
  for (int i = 0; i < 40; ++i) // more often than any queue has room in one block
    operation();
  const std::int64_t before = allocations();
  for (int i = 0; i < 40; ++i)
    operation();
  EXPECT_EQ(allocations() - before, 0) << what << " on rank " << rank;
}

// Large results go around the caches, small inputs travel in the channel's own room.
const std::vector<std::vector<Shape>> sizes{{{3}, {5, 4}}, {{1 << 12}}, {{1 << 20}}};

TEST_F(Steady, OperationsWithOut) {
  for (const std::vector<Shape>& shapes : sizes)
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const auto mesh = mesh_of({ranks});
      const auto layout = reference_of(shapes);
      const DBuffer whole(mesh, {R}, layout, dtype), own(mesh, {S}, layout, dtype), part(mesh, {P}, layout, dtype);
      fill(own, small);
      fill(part, small);
      expect_steady("allgather", [&] { own.allgather(0, &whole); });
      expect_steady("allgather in place", [&] {
        const DBuffer view = whole.view({S});
        view.allgather(0, &whole);
      });
      expect_steady("reduce_scatter", [&] { part.reduce_scatter(0, &own); });
      expect_steady("reduce_scatter in place", [&] {
        const DBuffer view = part.view({S});
        part.reduce_scatter(0, &view);
      });
      expect_steady("allreduce", [&] { part.allreduce(0, &whole); });
    }
}

TEST_F(Steady, MemoryOfTheCaller) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of({{64, 32}});
  std::vector<float> memory(static_cast<std::size_t>(layout->size()));
  const DBuffer part = DBuffer::from_local(memory.data(), layout->size(), mesh, {P}, layout, DType::f32);
  const DBuffer own(mesh, {S}, layout, DType::f32), whole(mesh, {R}, layout, DType::f32);
  expect_steady("reduce_scatter", [&] { part.reduce_scatter(0, &own); });
  expect_steady("allreduce", [&] { part.allreduce(0, &whole); });
}

TEST_F(Steady, SeveralAxes) {
  for (const std::vector<int>& mesh_sizes : two_axes()) {
    const auto mesh = mesh_of(mesh_sizes);
    const auto layout = reference_of({{64, 32}});
    const DBuffer part(mesh, {P, P}, layout, DType::f32), own(mesh, {S, S}, layout, DType::f32),
        whole(mesh, {R, R}, layout, DType::f32);
    expect_steady("reduce over two axes", [&] { part.redistribute({S, S}, &own); });
    expect_steady("gather over two axes", [&] { own.redistribute({R, R}, &whole); });
  }
}

TEST_F(Steady, QueuedOperations) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of({{64, 32}});
  const DBuffer part(mesh, {P}, layout, DType::f32), own(mesh, {S}, layout, DType::f32);
  const auto queue = runtime::make_host_queue("queue");
  expect_steady("a queue", [&] {
    redistribute(part, own, *queue, mesh->communicators());
    queue->launch("look", [own](const runtime::Execution&) { EXPECT_TRUE(own.is_allocated()); });
    queue->wait(queue->record());
    runtime::synchronize(queue->record(), "the queue");
  });
}

} // namespace
} // namespace ostraka::buffer::test
