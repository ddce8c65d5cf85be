// SPDX-License-Identifier: Apache-2.0
// Redistributions and kernels that are queued on streams.
#include "buffer_test.hpp"
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
  const auto gathers = runtime::make_host_queue("gather"), reductions = runtime::make_host_queue("reduce");
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
  const auto stream = runtime::make_host_compute_stream();
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

} // namespace
} // namespace ostraka::buffer::test
