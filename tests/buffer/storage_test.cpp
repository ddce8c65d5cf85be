// SPDX-License-Identifier: Apache-2.0
// Release and reallocation under handles that stay valid.
#include "buffer_test.hpp"

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> padded{{5, 4}, {2, 6}, {3}};

TEST(Release, OldViewsReadNewData) {
  const auto mesh = mesh_of({ranks});
  DBuffer whole(mesh, {R}, reference_of(padded), DType::f64, {nullptr, memory::Kind::transient});
  const DBuffer view = whole.view({S});
  const std::int64_t bytes = (whole.bytes() + 63) / 64 * 64;
  const memory::Usage& usage = mesh->arena()->usage(memory::Kind::transient);
  EXPECT_EQ(usage.in_use, bytes);
  whole.release_storage();
  EXPECT_EQ(usage.in_use, 0);
  EXPECT_FALSE(whole.is_allocated());
  EXPECT_FALSE(view.is_allocated());
  expect_error(Status::INVALID_STATE, [&] { view.data(); }, {"released"});
  whole.release_storage();
  whole.reallocate_storage();
  whole.reallocate_storage();
  EXPECT_EQ(usage.in_use, bytes);
  EXPECT_TRUE(view.is_allocated());
  fill(whole, [](std::int64_t) { return 7; });
  expect_values(view, [](std::int64_t) { return 7; });
}

TEST(Release, AddressMayChange) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  DBuffer whole(mesh, {R}, layout, DType::f64);
  const DBuffer view = whole.view({S});
  whole.release_storage();
  const DBuffer occupant(mesh, {R}, layout, DType::f64);
  whole.reallocate_storage();
  EXPECT_NE(whole.data(), occupant.data());
  fill(whole, small);
  expect_values(view, small);
  expect_values(occupant, [](std::int64_t) { return 0; });
}

void expect_zero_padding(const DBuffer& buffer) {
  const std::vector<bool> payload = payload_of(*buffer.layout());
  const auto* data = static_cast<const std::byte*>(buffer.data());
  const std::int64_t width = width_of(buffer.dtype());
  for (std::int64_t i = 0; i < buffer.bytes(); ++i)
    if (!payload[static_cast<std::size_t>(buffer.range().begin + i / width)]) {
      ASSERT_EQ(data[i], std::byte{0}) << "byte " << i;
    }
}

TEST(Release, PaddingIsZeroAfterReallocation) {
  const auto mesh = mesh_of({ranks});
  for (const DType dtype : {DType::f64, DType::f32, DType::bf16, DType::u8})
    for (const LayoutPtr& layout :
         {reference_of(padded), std::make_shared<const GlobalLayout>(build_planned(padded, ranks, {16, 8}))}) {
      DBuffer whole(mesh, {R}, layout, dtype);
      whole.release_storage();
      whole.reallocate_storage();
      expect_zero_padding(whole);
      DBuffer late(mesh, {R}, layout, dtype, {nullptr, memory::Kind::other, false});
      EXPECT_FALSE(late.is_allocated());
      late.reallocate_storage();
      expect_zero_padding(late);
    }
}

TEST(Release, ThroughAViewClearsThePaddingOfTheWhole) {
  const auto mesh = mesh_of({ranks});
  const DBuffer whole(mesh, {R}, reference_of(padded), DType::f64);
  DBuffer view = whole.view({S});
  view.release_storage();
  EXPECT_FALSE(whole.is_allocated());
  view.reallocate_storage();
  expect_zero_padding(whole);
}

TEST(Release, ReallocationOfAllocatedStorageKeepsItsContents) {
  const auto mesh = mesh_of({ranks});
  DBuffer whole(mesh, {R}, reference_of(padded), DType::f64);
  fill(whole, small);
  whole.reallocate_storage();
  DBuffer view = whole.view({S});
  view.reallocate_storage();
  expect_values(whole, small);
}

TEST(Release, EmptyBuffersCountAsAllocated) {
  const auto mesh = mesh_of({ranks});
  DBuffer nothing(mesh, {R}, reference_of({{0, 4}}), DType::f64);
  nothing.release_storage();
  EXPECT_TRUE(nothing.is_allocated());
  EXPECT_NO_THROW(nothing.reallocate_storage());
}

TEST(Release, SteadyRepetitionDoesNotGrow) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  const DBuffer own(mesh, {S}, layout, DType::f64);
  DBuffer whole(mesh, {R}, layout, DType::f64);
  fill(own, small);
  const int growths = mesh->arena()->growths();
  for (int i = 0; i < 10; ++i) {
    whole.reallocate_storage();
    own.allgather(0, &whole);
    expect_values(whole, small);
    whole.release_storage();
  }
  EXPECT_EQ(mesh->arena()->growths(), growths);
}

// A refused precondition leaves the communicators usable.
TEST(Release, CollectivesRefuseReleasedMemoryAndGoOn) {
  const auto mesh = mesh_of({ranks});
  const auto layout = reference_of(padded);
  DBuffer own(mesh, {S}, layout, DType::f64), whole(mesh, {R}, layout, DType::f64), sum(mesh, {P}, layout, DType::f64);
  fill(own, small);
  fill(sum, small);
  whole.release_storage();
  expect_error(Status::INVALID_STATE, [&] { own.allgather(0, &whole); }, {"released"});
  expect_error(Status::INVALID_STATE, [&] { sum.allreduce(0, &whole); }, {"released"});
  whole.reallocate_storage();
  own.release_storage();
  expect_error(Status::INVALID_STATE, [&] { own.allgather(0, &whole); }, {"released"});
  expect_error(Status::INVALID_STATE, [&] { own.allgather(0); }, {"released"});
  expect_error(Status::INVALID_STATE, [&] { sum.reduce_scatter(0, &own); }, {"released"});
  expect_error(Status::INVALID_STATE, [&] { own.cast(DType::f32); }, {"released"});
  own.reallocate_storage();
  fill(own, small);
  own.allgather(0, &whole);
  expect_values(whole, small);
  sum.reduce_scatter(0, &own);
  expect_values(own, [](std::int64_t i) { return ranks * small(i); });
}

} // namespace
} // namespace ostraka::buffer::test
