// SPDX-License-Identifier: Apache-2.0
// Memory that is registered for symmetric-memory collectives: asked for everywhere, there with NCCL from 2.30.7 on
// (which the double pretends to be), and otherwise as any other.
#include "buffer_test.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/base/environment.hpp>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> shapes{{7, 3}, {5}, {2, 2, 2}};

bool has_windows(const mesh::DeviceMesh& mesh) {
  return mesh.device() == runtime::Device::cuda && environment::backend() != environment::Backend::staged;
}

DBuffer symmetric(const MeshPtr& mesh, Placements placements, const LayoutPtr& layout) {
  Allocation allocation;
  allocation.symmetric = true;
  return DBuffer(mesh, std::move(placements), layout, DType::f64, allocation);
}

void register_everywhere(const DBuffer& buffer) {
  for (int axis = 0; axis < buffer.mesh()->dims(); ++axis)
    buffer.rendezvous(axis);
}

TEST(SymmetricMemory, OperationsAreAsEver) {
  const ScopedEnvironment version("OSTRAKA_DOUBLE_NCCL", "23007");
  for (const std::vector<int>& sizes : two_axes()) {
    const auto mesh = mesh_of(sizes);
    for (const LayoutPtr& layout : every_layout(shapes)) {
      SCOPED_TRACE(name(layout->policy()));
      const DBuffer own = symmetric(mesh, {S, S}, layout), whole = symmetric(mesh, {R, R}, layout),
                    sum = symmetric(mesh, {P, P}, layout);
      EXPECT_EQ(whole.is_symmetric_memory(), has_windows(*mesh));
      EXPECT_EQ(whole.view({R, S}).is_symmetric_memory(), has_windows(*mesh));
      for (const DBuffer* buffer : {&own, &whole, &sum})
        register_everywhere(*buffer); // segments of ragged layouts differ, and stay as they are
      spoil(whole);
      fill(own, small);
      own.redistribute({R, R}, &whole);
      expect_values(whole, small);
      fill(sum, small);
      expect_values(sum.redistribute({S, S}), times(ranks));
      sum.redistribute({R, R}, &whole);
      expect_values(whole, times(ranks));
    }
    if (has_failed_anywhere())
      return;
  }
}

TEST(SymmetricMemory, OrdinaryWhereItIsNotAskedForOrCannotBeHad) {
  const auto layout = reference_of(shapes);
  {
    const ScopedEnvironment version("OSTRAKA_DOUBLE_NCCL", "23007");
    const auto mesh = mesh_of({ranks});
    const DBuffer plain(mesh, {R}, layout, DType::f64);
    EXPECT_FALSE(plain.is_symmetric_memory());
    EXPECT_NO_THROW(plain.rendezvous(0));
  }
  const ScopedEnvironment version("OSTRAKA_DOUBLE_NCCL", "23006");
  const auto mesh = mesh_of({ranks});
  const DBuffer asked = symmetric(mesh, {R}, layout);
  EXPECT_FALSE(asked.is_symmetric_memory());
  EXPECT_NO_THROW(asked.rendezvous(0));
  const CallerMemory callers(mesh->device(), layout->size() * 8);
  const DBuffer wrapped = DBuffer::from_local(callers.data(), layout->size(), mesh, {R}, layout, DType::f64);
  EXPECT_FALSE(wrapped.is_symmetric_memory());
  EXPECT_NO_THROW(wrapped.rendezvous(0));
}

TEST(SymmetricMemory, RefusesAndStaysUsable) {
  const ScopedEnvironment version("OSTRAKA_DOUBLE_NCCL", "23007");
  const auto mesh = mesh_of({ranks});
  DBuffer own = symmetric(mesh, {S}, reference_of(shapes));
  for (const int axis : {-1, 1})
    expect_error(Status::INVALID_ARGUMENT, [&] { own.rendezvous(axis); }, {"axis", std::to_string(axis)});
  own.release_storage();
  expect_error(Status::INVALID_STATE, [&] { own.rendezvous(0); }, {"rendezvous", "released"});
  own.reallocate_storage();
  EXPECT_EQ(own.is_symmetric_memory(), has_windows(*mesh));
  own.rendezvous(0);
  fill(own, small);
  expect_values(own.allgather(0), small);
}

} // namespace
} // namespace ostraka::buffer::test
