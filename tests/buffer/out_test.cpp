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

} // namespace
} // namespace ostraka::buffer::test
