// SPDX-License-Identifier: Apache-2.0
// What is asked of `out`, and that a refusal changes nothing.
#include "buffer_test.hpp"

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> shapes{{5, 4}, {2, 6}, {3}};

struct Case {
  const char* operation;
  std::function<void(const DBuffer&)> call; ///< with out
  Placements right;                         ///< placements that out must have
  DType dtype;                              ///< type that out must have
};

TEST(Out, EveryMismatchIsNamed) {
  const auto mesh = mesh_of({ranks}), other_mesh = mesh_of({ranks});
  const auto layout = reference_of(shapes), other_layout = reference_of({{5, 4}, {2, 6}, {4}});
  const DBuffer own(mesh, {S}, layout, DType::f32), sum(mesh, {P}, layout, DType::f32);
  fill(own, small);
  fill(sum, small);
  const Case cases[] = {
      {"cast", [&](const DBuffer& out) { own.cast(DType::f64, &out); }, {S}, DType::f64},
      {"redistribute", [&](const DBuffer& out) { own.allgather(0, &out); }, {R}, DType::f32},
      {"redistribute", [&](const DBuffer& out) { sum.allreduce(0, &out); }, {R}, DType::f32},
      {"redistribute", [&](const DBuffer& out) { sum.reduce_scatter(0, &out); }, {S}, DType::f32},
      {"redistribute", [&](const DBuffer& out) { own.redistribute({S}, &out); }, {S}, DType::f32},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.operation);
    const Placements wrong{c.right == Placements{S} ? R : S};
    const DType wrong_type = c.dtype == DType::f64 ? DType::f32 : DType::f64;
    expect_error(Status::INVALID_ARGUMENT, [&] { c.call(DBuffer()); }, {c.operation, "no buffer"});
    expect_error(Status::INVALID_ARGUMENT, [&] { c.call(DBuffer(other_mesh, c.right, layout, c.dtype)); },
                 {c.operation, "mesh"});
    expect_error(Status::INVALID_ARGUMENT, [&] { c.call(DBuffer(mesh, wrong, layout, c.dtype)); },
                 {c.operation, to_string(wrong), to_string(c.right)});
    expect_error(Status::SHAPE_MISMATCH, [&] { c.call(DBuffer(mesh, c.right, other_layout, c.dtype)); },
                 {c.operation, "layout"});
    expect_error(Status::TYPE_MISMATCH, [&] { c.call(DBuffer(mesh, c.right, layout, wrong_type)); },
                 {c.operation, name(c.dtype), name(wrong_type)});
    // In this order: mesh, placements, layout, type.
    expect_error(Status::INVALID_ARGUMENT, [&] { c.call(DBuffer(other_mesh, wrong, other_layout, wrong_type)); },
                 {"mesh"});
    expect_error(Status::INVALID_ARGUMENT, [&] { c.call(DBuffer(mesh, wrong, other_layout, wrong_type)); },
                 {"placements"});
    expect_error(Status::SHAPE_MISMATCH, [&] { c.call(DBuffer(mesh, c.right, other_layout, wrong_type)); }, {"layout"});
    // An equal layout need not be the same object.
    EXPECT_NO_THROW(c.call(DBuffer(mesh, c.right, reference_of(shapes), c.dtype)));
  }
  expect_values(own, small);
  expect_values(sum, small);
  expect_values(own.allgather(0), small);
}

/// Buffers at chosen places of one piece of memory of the caller.
struct Overlap : testing::Test {
  DBuffer at(std::int64_t element, const Placement& placement, DType dtype = DType::f64) {
    const Range range = range_of(*layout, {placement}, {ranks}, rank);
    return DBuffer::from_local(memory.data() + 8 * element, range.size(), mesh, {placement}, layout, dtype);
  }
  // On every rank alike, so that nobody waits.
  void expect_refused(const DBuffer& in, const DBuffer& out) {
    const std::vector<std::byte> before = memory.contents();
    expect_error(Status::INVALID_ARGUMENT, [&] { in.redistribute(out.placements(), &out); },
                 {"redistribute", "overlap"});
    EXPECT_EQ(memory.contents(), before);
    const DBuffer good(mesh, {S}, layout, DType::f64);
    fill(good, small);
    expect_values(good.allgather(0), small);
  }

  MeshPtr mesh = mesh_of({ranks});
  LayoutPtr layout = share(build_flat({{2 * ranks}, {3 * ranks}}, ranks)); // no padding that from_local would refuse
  std::int64_t whole = layout->size(), own = whole / ranks;
  CallerMemory memory{mesh->device(), 8 * 3 * whole};
};

TEST_F(Overlap, OtherElementsAtTheSamePlaces) {
  // The right place of a shard in the whole is rank * own; these are one off, and at the very edge.
  expect_refused(at(1 + rank * own, S), at(0, R));
  expect_refused(at(whole - 1, S), at(0, R));
  expect_refused(at(0, S), at(own - 1, R));
  expect_refused(at(0, P), at(1, R));
  expect_refused(at(0, P), at(1 + rank * own, S));
  expect_refused(at(0, P), at(whole - 1, S));
  expect_refused(at(0, S), at(1, S));
}

TEST_F(Overlap, EqualElementsAndNeighbours) {
  const auto fresh = [&](const DBuffer& buffer) {
    memory.fill(std::byte{0});
    fill(buffer, times(buffer.placements()[0].is_partial() ? rank + 1 : 1));
    return buffer;
  };
  // Wrapped twice at the right place.
  const DBuffer all = at(0, R), part = at(rank * own, S);
  expect_values(fresh(at(rank * own, S)).redistribute({R}, &all), small);
  expect_values(fresh(at(0, P)).redistribute({R}, &all), times(triangle(ranks)));
  expect_values(fresh(at(0, P)).redistribute({S}, &part), times(triangle(ranks)));
  expect_values(fresh(at(0, R)).redistribute({S}, &part), small);
  // Side by side: the input stays.
  const DBuffer behind = at(whole, R), after = at(own, R), shard = at(whole, S);
  const DBuffer sum = fresh(at(0, P));
  expect_values(sum.redistribute({R}, &behind), times(triangle(ranks)));
  expect_values(sum.redistribute({S}, &shard), times(triangle(ranks)));
  expect_values(sum, times(rank + 1));
  const DBuffer own_part = fresh(at(0, S));
  expect_values(own_part.redistribute({R}, &after), small);
  expect_values(own_part, small);
}

// Element by element in parallel: only the same memory in the same type can be both.
TEST_F(Overlap, Casts) {
  const DBuffer wide = at(0, S);
  fill(wide, small);
  const auto cast = [&](const DBuffer& out) { return [&, out] { wide.cast(out.dtype(), &out); }; };
  for (const DType dtype : {DType::f32, DType::i64, DType::bf16})
    expect_error(Status::INVALID_ARGUMENT, cast(at(0, S, dtype)), {"cast", "overlap"});
  expect_error(Status::INVALID_ARGUMENT, cast(at(own - 1, S, DType::f32)), {"cast", "overlap"});
  expect_error(Status::INVALID_ARGUMENT, cast(at(1, S)), {"cast", "overlap"});
  const auto storage = std::make_shared<memory::Storage>(mesh->arena(), 8 * own, memory::Kind::other);
  const DBuffer a = DBuffer::from_storage(storage, mesh, {S}, layout, DType::f64);
  const DBuffer b = DBuffer::from_storage(storage, mesh, {S}, layout, DType::f32);
  expect_error(Status::INVALID_ARGUMENT, [&] { a.cast(DType::f32, &b); }, {"cast", "overlap"});
  expect_values(wide, small);
  EXPECT_NO_THROW(wide.cast(DType::f64, &wide));
  expect_values(wide, small);
  const DBuffer beside = at(own, S, DType::f32);
  expect_values(wide.cast(DType::f32, &beside), small);
  expect_values(wide, small);
}

} // namespace
} // namespace ostraka::buffer::test
