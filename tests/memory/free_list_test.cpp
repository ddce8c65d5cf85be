// SPDX-License-Identifier: Apache-2.0
// Random sequences against a map of single bytes, searched from the begin.
#include "support/expect_error.hpp"
#include <ostraka/memory/free_list.hpp>

#include <algorithm>
#include <cstdio>
#include <random>
#include <vector>

namespace ostraka::memory::test {
namespace {

using ostraka::test::expect_error;

class ByteMap {
public:
  explicit ByteMap(std::int64_t capacity) : taken_(static_cast<std::size_t>(capacity), false) {}

  std::optional<std::int64_t> allocate(std::int64_t bytes) {
    for (std::int64_t begin = 0; begin + bytes <= size(); ++begin)
      if (std::none_of(at(begin), at(begin + bytes), [](bool taken) { return taken; })) {
        std::fill(at(begin), at(begin + bytes), true);
        return begin;
      }
    return std::nullopt;
  }
  void release(std::int64_t begin, std::int64_t bytes) { std::fill(at(begin), at(begin + bytes), false); }
  bool is_all_free() const {
    return std::none_of(taken_.begin(), taken_.end(), [](bool taken) { return taken; });
  }

private:
  std::int64_t size() const { return static_cast<std::int64_t>(taken_.size()); }
  std::vector<bool>::iterator at(std::int64_t index) { return taken_.begin() + index; }
  std::vector<bool> taken_;
};

void compare(unsigned seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const std::int64_t capacity = 1 + random() % 400;
  const unsigned largest = 1 + random() % 60;
  FreeList list(capacity);
  ByteMap map(capacity);
  std::vector<std::pair<std::int64_t, std::int64_t>> live;
  for (int i = 0; i < 400; ++i) {
    if (live.empty() || random() % 5 < 3) {
      const std::int64_t bytes = 1 + random() % largest;
      const auto expected = map.allocate(bytes);
      ASSERT_EQ(list.allocate(bytes), expected);
      if (expected)
        live.emplace_back(*expected, bytes);
    } else {
      std::swap(live[random() % live.size()], live.back());
      list.release(live.back().first, live.back().second);
      map.release(live.back().first, live.back().second);
      live.pop_back();
    }
    ASSERT_EQ(list.is_all_free(), map.is_all_free());
  }
  for (const auto& [offset, bytes] : live)
    list.release(offset, bytes);
  EXPECT_TRUE(list.is_all_free());
  EXPECT_EQ(list.allocate(capacity), 0); // everything joined again
}

TEST(FreeList, RandomSequences) {
  const unsigned fresh = std::random_device{}();
  std::printf("FreeList.RandomSequences: seed %u\n", fresh);
  for (unsigned i = 0; i < 100; ++i) {
    compare(i);
    compare(fresh + i);
  }
}

TEST(FreeList, Edges) {
  FreeList nothing(0);
  EXPECT_TRUE(nothing.is_all_free());
  EXPECT_EQ(nothing.allocate(1), std::nullopt);
  FreeList list(10);
  EXPECT_EQ(list.allocate(11), std::nullopt);
  EXPECT_EQ(list.allocate(10), 0);
  EXPECT_FALSE(list.is_all_free());
  EXPECT_EQ(list.allocate(1), std::nullopt);
  list.release(0, 10);
  EXPECT_TRUE(list.is_all_free());
}

TEST(FreeList, ShrinkTakesTheLastFreeRange) {
  FreeList list(100);
  ASSERT_EQ(list.allocate(30), 0);
  ASSERT_EQ(list.allocate(20), 30);
  EXPECT_EQ(list.shrink(), 50);
  EXPECT_EQ(list.shrink(), 0);
  list.release(0, 30); // not at the end
  EXPECT_EQ(list.shrink(), 0);
  EXPECT_EQ(list.capacity(), 50);
  list.release(30, 20);
  EXPECT_EQ(list.shrink(), 50);
  EXPECT_EQ(list.capacity(), 0);
  EXPECT_TRUE(list.is_all_free());
  list.extend(10);
  EXPECT_EQ(list.allocate(10), 0);
}

TEST(FreeList, DoubleReleaseIsRefused) {
  FreeList list(100);
  for (int i = 0; i < 5; ++i)
    list.allocate(20);
  list.release(20, 20);
  for (const std::int64_t begin : {20, 15, 30, 39})
    expect_error(Status::INTERNAL, [&] { list.release(begin, 10); }, {"released twice", std::to_string(begin)});
  expect_error(Status::INTERNAL, [&] { list.release(0, 100); }, {"released twice"});
  list.release(0, 20);
  list.release(40, 20);
  expect_error(Status::INTERNAL, [&] { list.release(40, 20); }, {"released twice"});
  EXPECT_EQ(list.allocate(60), 0); // refusals changed nothing
}

} // namespace
} // namespace ostraka::memory::test
