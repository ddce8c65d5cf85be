// SPDX-License-Identifier: Apache-2.0
// Release and reallocation under handles that stay valid; where memory is placed and how it is counted.
#include "buffer_test.hpp"
#include <ostraka/buffer/flat_buffer.hpp>

#include <chrono>
#include <random>
#include <thread>

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
  const std::vector<std::byte> data = bytes_of(buffer);
  const std::int64_t width = width_of(buffer.dtype());
  for (std::int64_t i = 0; i < buffer.bytes(); ++i)
    if (!payload[static_cast<std::size_t>(buffer.range().begin + i / width)]) {
      ASSERT_EQ(data[static_cast<std::size_t>(i)], std::byte{0}) << "byte " << i;
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

// All handles, of all kinds, made at any time.
TEST(Release, EveryHandleFollows) {
  const auto mesh = mesh_of({1, ranks});
  const auto layout = share(build_ragged(padded, ranks));
  DBuffer whole(mesh, {R, R}, layout, DType::f32);
  std::vector<DBuffer> handles{whole, whole.view({R, S}), whole.view({P, Max}), whole.redistribute({R, S}),
                               DBuffer::from_storage(whole.storage(), mesh, {R, R}, layout, DType::f32)};
  handles.push_back(handles[1].view({S, S}));
  for (int round = 0; round < 3; ++round) {
    handles[static_cast<std::size_t>(round)].release_storage();
    for (const DBuffer& handle : handles)
      EXPECT_FALSE(handle.is_allocated());
    const DBuffer occupant(mesh, {R, R}, layout, DType::f32); // the address will be another
    whole.reallocate_storage();
    fill(whole, times(round));
    for (const DBuffer& handle : handles)
      expect_values(handle, times(round));
    fill(handles.back(), times(9));
    expect_values(whole.view({S, S}), times(9));
  }
}

TEST(Storage, AddressesAreAligned) {
  const auto mesh = mesh_of({ranks});
  const auto is_aligned = [](const void* address, std::uintptr_t bytes) {
    return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
  };
  std::vector<DBuffer> all;
  for (const DType dtype : all_types) {
    const std::int64_t width = width_of(dtype);
    for (const memory::Kind kind : {memory::Kind::parameters, memory::Kind::transient})
      for (const LayoutPtr& layout : every_layout({{3}, {5, 7}, {1}}))
        for (const Placement& placement : {R, S}) {
          all.emplace_back(mesh, Placements{placement}, layout, dtype, Allocation{nullptr, kind});
          EXPECT_TRUE(all.back().numel() == 0 || is_aligned(all.back().data(), 64));
        }
    // The layout of parameter groups: tensors at 64 bytes, segments multiples of 16.
    const auto layout = share(build_flat({{3}, {5, 7}, {1}}, ranks, {64 / width, 16 / width}));
    const DBuffer whole(mesh, {R}, layout, dtype);
    for (int t = 0; t < 3; ++t)
      EXPECT_TRUE(is_aligned(whole.tensor_range(t).data, 64));
    EXPECT_TRUE(is_aligned(whole.view({S}).data(), 16));
  }
}

// cases.md 36
TEST(Storage, CountsReturnToTheBaseline) {
  const auto mesh = mesh_of({1, ranks});
  const auto& arena = *mesh->arena();
  const auto total = [&] {
    std::int64_t bytes = 0;
    for (int kind = 0; kind < memory::num_kinds; ++kind)
      bytes += arena.usage(static_cast<memory::Kind>(kind)).in_use;
    return bytes;
  };
  const auto layout = reference_of(padded);
  const std::int64_t bytes = (8 * layout->size() + 63) / 64 * 64;
  for (int kind = 0; kind < memory::num_kinds; ++kind) {
    const auto of = static_cast<memory::Kind>(kind);
    DBuffer whole(mesh, {P, P}, layout, DType::f64, {nullptr, of});
    EXPECT_EQ(arena.usage(of).in_use, bytes);
    EXPECT_EQ(total(), bytes);
    {
      const DBuffer view = whole.view({S, S}), own = whole.redistribute({S, S}), all = own.redistribute({R, R});
      const DBuffer narrow = all.cast(DType::bf16), into(mesh, {S, S}, share(build_ragged(padded, ranks)), DType::f64);
      all.redistribute_into(into);
      FlatBuffer flat(mesh, padded, DType::f32, 1);
      flat.reduce_scatter();
      EXPECT_GT(total(), 2 * bytes);
      expect_error(Status::NOT_SUPPORTED, [&] { all.redistribute({P, P}); });
      expect_error(Status::TYPE_MISMATCH, [&] { all.redistribute_into(narrow); });
    }
    EXPECT_EQ(total(), bytes);
    const DBuffer keeps = whole.view({R, S});
    whole.release_storage();
    EXPECT_EQ(total(), 0);
    whole.reallocate_storage();
    whole = DBuffer();
    EXPECT_EQ(total(), bytes); // the view holds it
  }
  EXPECT_EQ(total(), 0);
  for (int kind = 0; kind < memory::num_kinds; ++kind)
    EXPECT_GE(arena.usage(static_cast<memory::Kind>(kind)).peak, bytes);
}

// The same calls on all ranks place memory at the same offsets, whoever is late.
TEST(Storage, OffsetsFollowProgramOrder) {
  const auto mesh = mesh_of({ranks});
  const auto seed = static_cast<unsigned>(fresh_seed("Storage.OffsetsFollowProgramOrder"));
  std::mt19937 calls(seed), delays(seed + 1 + static_cast<unsigned>(rank));
  const memory::Storage bases[] = {{mesh->arena(), 1, memory::Kind::other},
                                   {mesh->arena(), 1, memory::Kind::transient}};
  std::vector<DBuffer> live;
  std::vector<std::int64_t> offsets;
  for (int call = 0; call < 200; ++call) {
    if (delays() % 8 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(delays() % 500));
    const auto kind = calls() % 2 == 0 ? memory::Kind::other : memory::Kind::transient;
    const auto layout = reference_of({{static_cast<std::int64_t>(calls() % 40 + 1), 3}});
    const Placement placement = calls() % 2 == 0 ? P : S;
    const std::size_t index = live.empty() ? 0 : calls() % live.size();
    switch (calls() % 6) {
    case 0:
    case 1:
      live.emplace_back(mesh, Placements{placement}, layout, DType::f64, Allocation{nullptr, kind});
      break;
    case 2:
      if (!live.empty())
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(index));
      break;
    case 3:
      if (!live.empty()) {
        live[index].release_storage();
        live.emplace_back(mesh, Placements{S}, layout, DType::f32);
        live[index].reallocate_storage();
      }
      break;
    case 4:
      if (!live.empty())
        live.push_back(live[index].redistribute({R}));
      break;
    default:
      if (!live.empty())
        live.push_back(live[index].cast(DType::f32));
    }
    for (const DBuffer& buffer : live) {
      const bool is_transient = buffer.storage()->kind() == memory::Kind::transient;
      offsets.push_back(static_cast<std::byte*>(buffer.data()) - bases[is_transient ? 1 : 0].data());
    }
  }
  std::vector<std::int64_t> of_rank_0 = offsets;
  MPI_Bcast(of_rank_0.data(), static_cast<int>(of_rank_0.size()), MPI_INT64_T, 0, MPI_COMM_WORLD);
  EXPECT_EQ(offsets, of_rank_0);
}

} // namespace
} // namespace ostraka::buffer::test
