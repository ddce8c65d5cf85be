// SPDX-License-Identifier: Apache-2.0
// Redistributions and kernels that are queued on streams.
#include "buffer_test.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/buffer/execute.hpp>

#include <chrono>
#include <random>
#include <thread>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> padded{{5, 4}, {2, 6}, {3}};

TEST(Queued, RedistributionsOnTwoStreams) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  const auto gathers = runtime::make_queue(mesh->device(), "gather"),
             reductions = runtime::make_queue(mesh->device(), "reduce");
  const mesh::Communicators own_communicators = mesh->make_communicators("test");
  std::vector<DBuffer> wholes, sums;
  for (int k = 1; k <= 5; ++k) {
    const DBuffer own(mesh, {S}, layout, DType::f64), gradient(mesh, {P}, layout, DType::f64);
    fill(own, times(k));
    fill(gradient, times(k * (rank + 1)));
    wholes.emplace_back(mesh, Placements{R}, layout, DType::f64);
    sums.emplace_back(mesh, Placements{S}, layout, DType::f64);
    redistribute(own, wholes.back(), *gathers, own_communicators);
    redistribute(gradient, sums.back(), *reductions, own_communicators);
    accumulate(2, own, sums.back(), *reductions);
  }
  synchronize(reductions->record(), "reductions");
  synchronize(gathers->record(), "gathers");
  for (int k = 1; k <= 5; ++k) {
    expect_values(wholes[static_cast<std::size_t>(k - 1)], times(k));
    expect_values(sums[static_cast<std::size_t>(k - 1)], times(k * ranks * (ranks + 1) / 2.0 + 2 * k));
  }
}

TEST(Queued, ZerosAndTensors) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  const auto stream = runtime::compute_stream(mesh->device());
  for (const DType dtype : all_types) {
    const DBuffer own(mesh, {S}, layout, dtype);
    fill(own, small);
    clear_tensor(own, 1, *stream);
    const Range cleared = layout->tensor_range(1);
    expect_values(own, [&](std::int64_t i) { return cleared.begin <= i && i < cleared.end ? 0 : small(i); });
    fill(
        own, [](std::int64_t) { return 99; }, true);
    clear_padding(own, *stream);
    expect_values(own, [](std::int64_t) { return 99; });
    fill_zero(own, *stream);
    expect_values(own, [](std::int64_t) { return 0; });
  }
}

// Ranks see operations complete at different times; where memory is placed must not tell.
TEST(Queued, OffsetsFollowProgramOrder) {
  std::mt19937 random(static_cast<unsigned>(rank));
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of(padded), larger = reference_of({{50, 3}, {7}});
    const auto arena = mesh->arena();
    const memory::Storage first(arena, 64, memory::Kind::transient);
    const auto stream = runtime::make_queue(mesh->device(), "reduce");
    const mesh::Communicators own = mesh->make_communicators("test");
    std::vector<std::int64_t> offsets;
    const auto note = [&] {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      for (int polls = static_cast<int>(random() % 200); polls > 0; --polls)
        runtime::progress_all();
      const memory::Storage probe(arena, 64, memory::Kind::transient);
      offsets.push_back(probe.data() - first.data());
    };
    std::vector<DBuffer> ins, outs;
    for (int step = 0; step < 12; ++step) {
      const LayoutPtr& used = step == 5 ? larger : layout;
      ins.emplace_back(mesh, Placements{P, P}, used, DType::f64);
      outs.emplace_back(mesh, Placements{S, S}, used, DType::f64);
      fill(ins.back(), times(rank + step));
      redistribute(ins.back(), outs.back(), *stream, own);
      note();
    }
    synchronize(stream->record(), "reductions");
    note();
    // One scratch for all, the larger one; none where the first result fits into the second.
    const std::int64_t scratch = sizes[0] == 1 ? 0 : (8 * larger->size() / sizes[1] + 63) / 64 * 64;
    EXPECT_EQ(arena->usage(memory::Kind::transient).in_use, 64 + scratch);
    for (int step = 0; step < 12; ++step)
      expect_values(outs[static_cast<std::size_t>(step)], times(ranks * step + triangle(ranks - 1)));
    std::vector<std::int64_t> of_rank_0 = offsets;
    MPI_Bcast(of_rank_0.data(), static_cast<int>(of_rank_0.size()), MPI_INT64_T, 0, MPI_COMM_WORLD);
    EXPECT_EQ(offsets, of_rank_0);
    own.scratch->release();
    EXPECT_EQ(arena->usage(memory::Kind::transient).in_use, 64);
  }
}

TEST(Queued, SynchronousCallsHaveScratchOfTheirOwn) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of(padded);
    const DBuffer in(mesh, {P, P}, layout, DType::f64), out(mesh, {S, S}, layout, DType::f64);
    fill(in, times(rank));
    const auto stream = runtime::make_queue(mesh->device(), "late");
    const auto gate = std::make_shared<runtime::Event::State>();
    const mesh::Communicators others = mesh->make_communicators("other");
    mesh::Communicators queued = mesh->communicators();
    queued.gather = others.gather;
    queued.reduce = others.reduce;
    stream->wait(runtime::Event(gate));
    redistribute(in, out, *stream, queued);
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "10");
    expect_values(in.redistribute({S, S}), times(triangle(ranks - 1))); // while the other cannot start
    expect_values(out, [](std::int64_t) { return 0; });
    gate->done = true;
    synchronize(stream->record(), "the late one");
    expect_values(out, times(triangle(ranks - 1)));
  }
}

} // namespace
} // namespace ostraka::buffer::test
