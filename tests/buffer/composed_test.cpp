// SPDX-License-Identifier: Apache-2.0
// Redistributions of several axes: results, the order of the axes, and where intermediates lie (spec 2.4, 6.2).
#include "recorder.hpp"
#include "reduction_model.hpp"
#include <ostraka/buffer/execute.hpp>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> padded{{5, 4}, {2, 6}, {3}};

/// What axis `axis` of `mesh` multiplies a value by that is times (coordinate + 1) on each rank of a Partial axis.
double factor(const mesh::DeviceMesh& mesh, const Placement& from, const Placement& to, int axis) {
  if (!from.is_partial())
    return 1;
  const int n = mesh.axis_size(axis), own = mesh.coordinate(axis) + 1;
  if (to.is_partial())
    return own;
  return from.op == ReduceOp::sum    ? triangle(n)
         : from.op == ReduceOp::mean ? (n + 1) / 2.0
         : from.op == ReduceOp::max  ? n
                                     : 1;
}

double factor(const mesh::DeviceMesh& mesh, const Placements& from, const Placements& to) {
  double result = 1;
  for (int axis = 0; axis < mesh.dims(); ++axis)
    result *= factor(mesh, from[static_cast<std::size_t>(axis)], to[static_cast<std::size_t>(axis)], axis);
  return result;
}

// Out absent, separate, and sharing memory with the input.
void expect_redistribution(const MeshPtr& mesh, const LayoutPtr& layout, DType dtype, const Placements& from,
                           const Placements& to) {
  SCOPED_TRACE(to_string(from) + " to " + to_string(to) + ", " + name(layout->policy()) + " of " + name(dtype));
  const Values before = times(factor(*mesh, from, from)), after = times(factor(*mesh, from, to));
  const DBuffer in(mesh, from, layout, dtype), separate(mesh, to, layout, dtype);
  fill(in, before);
  spoil(separate);
  expect_values(in.redistribute(to), after);
  expect_values(in, before);
  EXPECT_EQ(in.redistribute(to, &separate).data(), separate.data());
  expect_values(separate, after);
  expect_values(in, before);
  const bool grows = separate.numel() > in.numel();
  const DBuffer home(mesh, grows ? to : from, layout, dtype);
  spoil(home);
  const DBuffer shared = grows ? home.view(from) : home, out = grows ? home : home.view(to);
  fill(shared, before);
  shared.redistribute(to, &out);
  expect_values(out, after);
}

TEST(Composed, TwoAxes) {
  const std::pair<Placements, Placements> table[] = {
      {{S, S}, {S, S}}, {{P, P}, {R, R}},     {{P, P}, {S, S}},     {{P, P}, {R, S}},     {{R, P}, {A, S}},
      {{P, S}, {R, R}}, {{A, P}, {R, S}},     {{P, A}, {S, S}},     {{A, A}, {R, R}},     {{R, P}, {S, S}},
      {{P, R}, {R, S}}, {{P, R}, {S, S}},     {{Max, Max}, {S, S}}, {{Min, Min}, {R, S}}, {{R, S}, {Max, R}},
      {{P, S}, {P, R}}, {{Max, P}, {Max, S}}, {{P, P}, {P, R}},     {{A, S}, {R, R}},     {{Max, S}, {R, R}}};
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    for (const LayoutPtr& layout : {reference_of(padded), share(build_ragged(padded, ranks, {row_atom()}))})
      for (const auto& [from, to] : table)
        expect_redistribution(mesh, layout, DType::f64, from, to);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i64, DType::i32})
      expect_redistribution(mesh, share(build_flat(padded, ranks, {4, 2})), dtype, {P, P}, {S, S});
  }
}

TEST(Composed, ThreeAxes) {
  for (const std::vector<int>& sizes : meshes_of(3)) {
    const auto mesh = mesh_of(sizes);
    const std::pair<Placements, Placements> table[] = {
        {{P, P, P}, {R, R, R}}, {{P, P, P}, {S, S, S}},   {{P, P, P}, {R, S, S}}, {{A, P, S}, {R, R, R}},
        {{P, R, P}, {S, S, S}}, {{R, P, S}, {Min, S, S}}, {{S, S, S}, {R, R, R}}, {{P, S, S}, {R, R, S}}};
    for (const auto& [from, to] : table)
      for (const LayoutPtr& layout : {reference_of(padded), share(build_ragged(padded, ranks))})
        expect_redistribution(mesh, layout, DType::f64, from, to);
  }
}

/// Values of 16 bits whose sums depend on the order of axes.
double rough(int r, std::int64_t i) {
  return converted(std::ldexp(1 + static_cast<double>((r * 37 + i * 101) % 127) / 128, static_cast<int>((r + i) % 4)),
                   DType::bf16);
}

/// Element i on the rank at (i0, i1), summed over one axis, then the other.
double summed(const std::vector<int>& sizes, std::int64_t i, int first) {
  const int other = 1 - first;
  std::vector<double> outer;
  for (int k = 0; k < sizes[static_cast<std::size_t>(other)]; ++k) {
    std::vector<double> inner;
    for (int j = 0; j < sizes[static_cast<std::size_t>(first)]; ++j)
      inner.push_back(rough(first == 1 ? k * sizes[1] + j : j * sizes[1] + k, i));
    outer.push_back(reduced(ReduceOp::sum, DType::bf16, inner));
  }
  return reduced(ReduceOp::sum, DType::bf16, outer);
}

// Data is smallest when it is reduced: scatters begin with the inner axis.
TEST(Composed, OrderOfAxesShowsInRounding) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of({{257}});
    const DBuffer in(mesh, {P, P}, layout, DType::bf16);
    fill(in, [](std::int64_t i) { return rough(rank, i); });
    expect_values(in.redistribute({S, S}), [&](std::int64_t i) { return summed(sizes, i, 1); });
    expect_values(in.redistribute({R, S}), [&](std::int64_t i) { return summed(sizes, i, 1); });
    expect_values(in.redistribute({R, R}), [&](std::int64_t i) { return summed(sizes, i, 0); });
    if (sizes[0] > 1 && sizes[1] > 1) {
      int differ = 0;
      for (int i = 0; i < 257; ++i)
        differ += summed(sizes, i, 0) != summed(sizes, i, 1);
      EXPECT_GT(differ, 10) << "these values tell nothing";
    }
  }
}

void expect_calls(const std::vector<Call>& calls, const std::vector<std::pair<const char*, int>>& expected) {
  ASSERT_EQ(calls.size(), expected.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].operation, expected[i].first) << i;
    EXPECT_EQ(calls[i].axis, expected[i].second) << i;
  }
}

struct Places : testing::Test {
  // Runs from -> to with recorders; the caller has filled `in` with times(own factor).
  void run(const DBuffer& in, const DBuffer& out) {
    calls.clear();
    const auto communicators = recorders(*in.mesh(), calls);
    redistribute(in, out, *runtime::make_host_compute_stream(), communicators);
  }
  std::vector<Call> calls;
};

TEST_F(Places, ScatterIntoAViewOfTheInput) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes, runtime::Device::host);
    const auto layout = reference_of(padded);
    const DBuffer in(mesh, {P, P}, layout, DType::i64), out = in.view({S, S});
    fill(in, times(factor(*mesh, {P, P}, {P, P})));
    run(in, out);
    expect_calls(calls, {{"reduce_scatter", 1}, {"reduce_scatter", 0}});
    // Each output stands at input + rank of the axis * count.
    const std::int64_t line = layout->size() / sizes[1], own = layout->size() / ranks;
    EXPECT_EQ(calls[0].in.byte_offset, 0);
    EXPECT_EQ(calls[0].out.byte_offset, 8 * mesh->coordinate(1) * line);
    EXPECT_EQ(calls[1].in.byte_offset, calls[0].out.byte_offset);
    EXPECT_EQ(calls[1].out.byte_offset, calls[1].in.byte_offset + 8 * mesh->coordinate(0) * own);
    EXPECT_EQ(calls[0].count, layout->size());
    EXPECT_EQ(calls[1].count, line);
    for (const Call& call : calls) {
      EXPECT_EQ(call.in.storage, in.storage());
      EXPECT_EQ(call.out.storage, in.storage());
    }
    expect_values(out, times(factor(*mesh, {P, P}, {S, S})));
  }
}

TEST_F(Places, ScatterOfThreeAxesHasOneScratch) {
  for (const std::vector<int>& sizes : meshes_of(3)) {
    const auto mesh = mesh_of(sizes, runtime::Device::host);
    const auto layout = reference_of(padded);
    const DBuffer in(mesh, {P, P, P}, layout, DType::i64), out(mesh, {S, S, S}, layout, DType::i64);
    fill(in, times(factor(*mesh, {P, P, P}, {P, P, P})));
    run(in, out);
    expect_calls(calls, {{"reduce_scatter", 2}, {"reduce_scatter", 1}, {"reduce_scatter", 0}});
    EXPECT_EQ(calls[0].in.storage, in.storage());
    if (ranks == 1)
      continue; // everything fits into the result
    const auto scratch = calls[0].out.storage;
    EXPECT_NE(scratch, in.storage());
    EXPECT_NE(scratch, out.storage());
    EXPECT_EQ(scratch->bytes(), 8 * layout->size() / sizes[2]);
    EXPECT_EQ(calls[1].in.storage, scratch);
    EXPECT_EQ(calls[1].out.storage, sizes[0] > 1 ? scratch : out.storage()); // where it fits into the result
    if (sizes[0] > 1) {                                                      // a part of what it held before
      const std::int64_t piece = layout->size() / sizes[2] / sizes[1];
      EXPECT_EQ(calls[1].out.byte_offset, calls[1].in.byte_offset + 8 * mesh->coordinate(1) * piece);
    }
    EXPECT_EQ(calls[2].in.storage, calls[1].out.storage);
    EXPECT_EQ(calls[2].out.storage, out.storage());
    expect_values(out, times(factor(*mesh, {P, P, P}, {S, S, S})));
  }
}

TEST_F(Places, GathersAndAllreducesLieInTheResult) {
  for (const std::vector<int>& sizes : meshes_of(3)) {
    const auto mesh = mesh_of(sizes, runtime::Device::host);
    const auto layout = share(build_ragged(padded, ranks));
    const DBuffer in(mesh, {P, S, S}, layout, DType::i64), out(mesh, {R, R, R}, layout, DType::i64);
    fill(in, times(factor(*mesh, {P, S, S}, {P, S, S})));
    run(in, out);
    expect_calls(calls, {{"allreduce", 0}, {"allgather", 1}, {"allgather", 2}});
    for (const Call& call : calls)
      EXPECT_EQ(call.out.storage, out.storage());
    EXPECT_EQ(calls[0].in.storage, in.storage()); // no copy before it
    EXPECT_EQ(calls[1].in.storage, out.storage());
    EXPECT_EQ(calls[2].in.storage, out.storage());
    EXPECT_EQ(calls[0].out.byte_offset, out.view({R, S, S}).byte_offset());
    EXPECT_EQ(calls[1].out.byte_offset, out.view({R, R, S}).byte_offset());
    EXPECT_EQ(calls[2].out.byte_offset, 0);
    expect_values(out, times(factor(*mesh, {P, S, S}, {R, R, R})));
    expect_values(in, times(factor(*mesh, {P, S, S}, {P, S, S})));
  }
}

/// Bytes of transient memory that `action` takes at most.
std::int64_t transient_peak(const mesh::DeviceMesh& mesh, const std::function<void()>& action) {
  const memory::Usage before = mesh.arena()->usage(memory::Kind::transient);
  EXPECT_EQ(before.in_use, before.peak) << "measured once per mesh";
  action();
  EXPECT_EQ(mesh.arena()->usage(memory::Kind::transient).in_use, before.in_use);
  return mesh.arena()->usage(memory::Kind::transient).peak - before.peak;
}

TEST(Composed, ScratchOfTheArena) {
  for (const std::vector<int>& sizes : meshes_of(3)) {
    const auto layout = reference_of(padded);
    const auto peak = [&](const Placements& from, const Placements& to, bool aliases) {
      const auto mesh = mesh_of(sizes);
      const bool grows = std::count(to.begin(), to.end(), S) < std::count(from.begin(), from.end(), S);
      const DBuffer home(mesh, grows ? to : from, layout, DType::f64);
      const DBuffer in = home.view(from), out = aliases ? home.view(to) : DBuffer(mesh, to, layout, DType::f64);
      const std::int64_t others = mesh->arena()->usage(memory::Kind::other).peak;
      const int growths = mesh->arena()->growths();
      const std::int64_t bytes = transient_peak(*mesh, [&] { in.redistribute(to, &out); });
      EXPECT_EQ(mesh->arena()->usage(memory::Kind::other).peak, others);
      EXPECT_EQ(mesh->arena()->growths(), growths + (bytes > 0));
      return bytes;
    };
    // What is left after the first axis, unless it fits into the result.
    const auto scratch = [&](int cuts) { return cuts == ranks ? 0 : (8 * layout->size() / cuts + 63) / 64 * 64; };
    EXPECT_EQ(peak({P, P, P}, {S, S, S}, false), scratch(sizes[2]));
    EXPECT_EQ(peak({P, P, P}, {S, S, S}, true), 0);
    EXPECT_EQ(peak({P, P, P}, {R, R, R}, false), 0);
    EXPECT_EQ(peak({S, S, S}, {R, R, R}, false), 0);
    EXPECT_EQ(peak({P, S, S}, {R, R, R}, false), 0);
    EXPECT_EQ(peak({P, S, S}, {R, R, R}, true), 0);
    EXPECT_EQ(peak({P, P, P}, {R, S, S}, true), 0);
    EXPECT_EQ(peak({P, P, S}, {S, S, S}, false), scratch(sizes[1] * sizes[2]));
    EXPECT_EQ(peak({P, P, S}, {R, P, S}, false), 0);
    EXPECT_EQ(peak({P, R, R}, {S, S, S}, false), 0); // a view, then one reduction
  }
}

TEST(Composed, ScratchIsInTheArenaOfTheResult) {
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    const auto layout = reference_of(padded);
    const auto arena = memory::make_arena(mesh->device());
    const DBuffer in(mesh, {P, P}, layout, DType::f64), out(mesh, {S, S}, layout, DType::f64, {arena});
    fill(in, times(rank + 1));
    in.redistribute({S, S}, &out);
    expect_values(out, times(triangle(ranks)));
    EXPECT_EQ(mesh->arena()->usage(memory::Kind::transient).peak, 0);
    EXPECT_EQ(arena->usage(memory::Kind::transient).peak > 0, sizes[0] > 1);
    EXPECT_EQ(arena->usage(memory::Kind::transient).in_use, 0);
    const DBuffer fresh = out.redistribute({R, R}); // what is made lies with what it is made of
    EXPECT_EQ(fresh.storage()->arena(), arena);
    EXPECT_EQ(out.cast(DType::f32).storage()->arena(), arena);
  }
}

} // namespace
} // namespace ostraka::buffer::test
