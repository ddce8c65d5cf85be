// SPDX-License-Identifier: Apache-2.0
#include "support/expect_error.hpp"
#include <ostraka/memory/storage.hpp>

namespace ostraka::memory::test {
namespace {

using ostraka::test::expect_error;

TEST(Storage, ReleaseAndReallocate) {
  const auto arena = make_host_arena();
  Storage storage(arena, 100, Kind::gradients);
  EXPECT_EQ(storage.bytes(), 100);
  EXPECT_EQ(storage.kind(), Kind::gradients);
  EXPECT_EQ(storage.device(), runtime::Device::host);
  EXPECT_EQ(storage.arena(), arena);
  EXPECT_TRUE(storage.is_allocated());
  EXPECT_NE(storage.data(), nullptr);
  storage.reallocate(); // nothing to do
  EXPECT_EQ(arena->usage(Kind::gradients).in_use, 128);
  for (int i = 0; i < 2; ++i) { // the second release does nothing
    storage.release();
    EXPECT_FALSE(storage.is_allocated());
    EXPECT_EQ(arena->usage(Kind::gradients).in_use, 0);
    expect_error(Status::INVALID_STATE, [&] { storage.data(); }, {"100 bytes", "reallocate_storage"});
  }
  storage.reallocate();
  EXPECT_TRUE(storage.is_allocated());
  EXPECT_EQ(arena->usage(Kind::gradients).in_use, 128);
  EXPECT_EQ(arena->growths(), 1);
}

TEST(Storage, AliasesFollowTheAddress) {
  const auto arena = make_host_arena();
  const auto storage = std::make_shared<Storage>(arena, 64, Kind::other);
  const auto alias = storage;
  storage->release();
  const Storage occupant(arena, 64, Kind::other); // takes the old place
  storage->reallocate();
  EXPECT_NE(storage->data(), occupant.data());
  storage->data()[5] = std::byte{7};
  EXPECT_EQ(alias->data()[5], std::byte{7});
}

TEST(Storage, StartsReleasedWhenAsked) {
  const auto arena = make_host_arena();
  Storage storage(arena, 64, Kind::transient, false);
  EXPECT_FALSE(storage.is_allocated());
  EXPECT_EQ(arena->growths(), 0);
  storage.reallocate();
  EXPECT_TRUE(storage.is_allocated());
}

TEST(Storage, GivesItsMemoryBack) {
  const auto arena = make_host_arena();
  { const Storage storage(arena, 64, Kind::other); }
  EXPECT_EQ(arena->usage(Kind::other).in_use, 0);
  {
    Storage storage(arena, 64, Kind::other);
    storage.release();
  }
  EXPECT_EQ(arena->usage(Kind::other).in_use, 0);
}

TEST(Storage, NoBytesAreAlwaysAllocated) {
  const auto arena = make_host_arena();
  Storage storage(arena, 0, Kind::other);
  EXPECT_TRUE(storage.is_allocated());
  storage.release();
  EXPECT_TRUE(storage.is_allocated());
  EXPECT_NO_THROW(storage.data());
  EXPECT_EQ(arena->growths(), 0);
}

TEST(Storage, WrappedMemoryIsNotReleased) {
  double values[4] = {1, 2, 3, 4};
  Storage storage(values, sizeof values, runtime::Device::host);
  EXPECT_EQ(storage.data(), reinterpret_cast<std::byte*>(values));
  EXPECT_EQ(storage.arena(), nullptr);
  EXPECT_TRUE(storage.is_allocated());
  expect_error(Status::INVALID_STATE, [&] { storage.release(); }, {"release_storage", "caller"});
  expect_error(Status::INVALID_STATE, [&] { storage.reallocate(); }, {"reallocate_storage", "caller"});
  EXPECT_EQ(storage.data(), reinterpret_cast<std::byte*>(values));
}

} // namespace
} // namespace ostraka::memory::test
