// SPDX-License-Identifier: Apache-2.0
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/memory/arena.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>

namespace ostraka::memory::test {
namespace {

using ostraka::test::expect_error;
using ostraka::test::ScopedEnvironment;

TEST(Arena, UsageByKind) {
  const auto arena = make_host_arena();
  EXPECT_EQ(arena->device(), runtime::Device::host);
  EXPECT_EQ(arena->reserved(), 0);
  EXPECT_EQ(arena->growths(), 0);
  const auto weights = arena->allocate(100, Kind::parameters); // 128 bytes
  const auto gradient = arena->allocate(64, Kind::gradients);
  EXPECT_EQ(weights.bytes, 128);
  EXPECT_EQ(arena->usage(Kind::parameters).in_use, 128);
  EXPECT_EQ(arena->usage(Kind::gradients).in_use, 64);
  EXPECT_EQ(arena->usage(Kind::transient).in_use, 0);
  EXPECT_EQ(arena->reserved(), 192);
  EXPECT_EQ(arena->growths(), 2);
  arena->release(weights, Kind::parameters);
  EXPECT_EQ(arena->usage(Kind::parameters).in_use, 0);
  EXPECT_EQ(arena->usage(Kind::parameters).peak, 128);
  const auto again = arena->allocate(1, Kind::parameters);
  EXPECT_EQ(again.data, weights.data);
  EXPECT_EQ(arena->usage(Kind::parameters).peak, 128);
  EXPECT_EQ(arena->growths(), 2);
  arena->release(again, Kind::parameters);
  arena->release(gradient, Kind::gradients);
}

TEST(Arena, SteadyRepetitionDoesNotGrow) {
  const auto arena = make_host_arena();
  int after_first = 0;
  for (int step = 0; step < 20; ++step) {
    std::vector<Arena::Block> blocks;
    for (const std::int64_t bytes : {8, 5000, 64, 123'456, 1, 640})
      blocks.push_back(arena->allocate(bytes, Kind::transient));
    for (const std::size_t i : {3u, 0u, 5u, 1u, 4u, 2u})
      arena->release(blocks[i], Kind::transient);
    if (step == 0)
      after_first = arena->growths();
    EXPECT_EQ(arena->growths(), after_first);
  }
  EXPECT_EQ(arena->usage(Kind::transient).in_use, 0);
  EXPECT_EQ(arena->usage(Kind::transient).peak, 64 + 5056 + 64 + 123'456 + 64 + 640);
}

void check_random(unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto arena = make_host_arena();
  std::multimap<std::byte*, std::pair<Arena::Block, unsigned char>> live;
  std::int64_t in_use = 0, peak = 0;
  for (int i = 0; i < 300; ++i) {
    if (live.empty() || random() % 2 == 0) {
      const std::int64_t bytes = 1 + random() % 1000;
      const auto block = arena->allocate(bytes, Kind::other);
      in_use += (bytes + 63) / 64 * 64;
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % 64, 0u);
      ASSERT_GE(block.bytes, bytes);
      const auto mark = static_cast<unsigned char>(random());
      std::memset(block.data, mark, static_cast<std::size_t>(block.bytes));
      live.emplace(block.data, std::pair{block, mark});
    } else {
      auto victim = live.begin();
      std::advance(victim, random() % live.size());
      const auto& [block, mark] = victim->second;
      for (std::int64_t b = 0; b < block.bytes; ++b) // nobody else wrote here
        ASSERT_EQ(block.data[b], static_cast<std::byte>(mark));
      in_use -= block.bytes;
      arena->release(block, Kind::other);
      live.erase(victim);
    }
    peak = std::max(peak, in_use);
    ASSERT_EQ(arena->usage(Kind::other).in_use, in_use);
    ASSERT_EQ(arena->usage(Kind::other).peak, peak);
    ASSERT_GE(arena->reserved(), in_use);
  }
}

TEST(Arena, RandomBlocksAreDisjoint) {
  const unsigned fresh = std::random_device{}();
  std::printf("Arena.RandomBlocksAreDisjoint: seed %u\n", fresh);
  for (unsigned i = 0; i < 10; ++i) {
    check_random(i);
    check_random(fresh + i);
  }
}

TEST(Arena, TrimGivesBackWhatIsFreeAtTheEnds) {
  const ScopedEnvironment unchecked("OSTRAKA_CHECK", "0");
  const auto arena = make_host_arena();
  const Arena::Block first = arena->allocate(1 << 20, Kind::other), second = arena->allocate(1 << 20, Kind::other);
  const Arena::Block transient = arena->allocate(1 << 20, Kind::transient);
  std::memset(first.data, 1, static_cast<std::size_t>(first.bytes));
  std::memset(second.data, 2, static_cast<std::size_t>(second.bytes));
  arena->trim();
  EXPECT_EQ(arena->reserved(), 3 << 20);
  arena->release(second, Kind::other);
  arena->release(transient, Kind::transient);
  arena->trim();
  EXPECT_EQ(arena->reserved(), 1 << 20);
  EXPECT_EQ(first.data[first.bytes - 1], std::byte{1});
  const Arena::Block again = arena->allocate(1 << 20, Kind::other);
  EXPECT_EQ(again.offset, second.offset);
  EXPECT_EQ(again.data[0], std::byte{0}); // new pages
}

TEST(Arena, DoubleReleaseIsRefused) {
  const auto arena = make_host_arena();
  const auto first = arena->allocate(64, Kind::other);
  const auto block = arena->allocate(64, Kind::other);
  arena->release(block, Kind::other);
  expect_error(Status::INTERNAL, [&] { arena->release(block, Kind::other); }, {"released twice"});
  EXPECT_EQ(arena->usage(Kind::other).in_use, 64);
  arena->release(first, Kind::other);
}

TEST(Arena, OutOfMemoryNamesTheSize) {
  const auto arena = make_host_arena();
  const auto block = arena->allocate(640, Kind::other);
  expect_error(Status::OUT_OF_MEMORY, [&] { arena->allocate(std::int64_t{1} << 60, Kind::other); },
               {"1152921504606846976", "640"});
  EXPECT_EQ(arena->usage(Kind::other).in_use, 640);
  EXPECT_EQ(arena->growths(), 1);
  arena->release(block, Kind::other);
  EXPECT_NO_THROW(arena->release(arena->allocate(64, Kind::other), Kind::other));
}

TEST(Arena, CheckFillsWithNan) {
  const ScopedEnvironment scope("OSTRAKA_CHECK", "1");
  const auto arena = make_host_arena();
  const auto all_nan = [](const Arena::Block& block) {
    for (std::int64_t i = 0; i < block.bytes / 8; ++i) {
      double value = 0;
      std::memcpy(&value, block.data + 8 * i, 8);
      float half = 0;
      std::memcpy(&half, block.data + 8 * i, 4);
      if (!std::isnan(value) || !std::isnan(half))
        return false;
    }
    return true;
  };
  const auto block = arena->allocate(640, Kind::other);
  EXPECT_TRUE(all_nan(block));
  std::memset(block.data, 0, 640);
  arena->release(block, Kind::other);
  EXPECT_TRUE(all_nan(block)); // the arena still owns the bytes
  std::memset(block.data, 0, 640);
  const auto again = arena->allocate(640, Kind::other);
  EXPECT_TRUE(all_nan(again));
}

TEST(Arena, NoFillWithoutCheck) {
  const ScopedEnvironment scope("OSTRAKA_CHECK", nullptr);
  const auto arena = make_host_arena();
  const auto block = arena->allocate(64, Kind::other);
  std::memset(block.data, 0x5a, 64);
  arena->release(block, Kind::other);
  EXPECT_EQ(block.data[63], std::byte{0x5a});
}

} // namespace
} // namespace ostraka::memory::test
