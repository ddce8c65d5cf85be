// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/callable.hpp>
#include <ostraka/base/inline_vector.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>
#include <vector>

namespace ostraka::test {
namespace {

using Numbers = InlineVector<int, 3>;

void expect_equal(const Numbers& found, const std::vector<int>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  EXPECT_EQ(found.empty(), expected.empty());
  EXPECT_EQ(std::vector<int>(found.begin(), found.end()), expected);
  if (!expected.empty()) {
    EXPECT_EQ(found.front(), expected.front());
    EXPECT_EQ(found.back(), expected.back());
  }
}

TEST(InlineVector, IsAVector) {
  std::minstd_rand random(7);
  Numbers found;
  std::vector<int> expected;
  for (int i = 0; i < 2000; ++i) {
    const int value = static_cast<int>(random() % 100);
    switch (random() % 6) {
    case 0:
    case 1:
      found.push_back(value);
      expected.push_back(value);
      break;
    case 2:
      found.resize(static_cast<std::size_t>(value % 7), i);
      expected.resize(static_cast<std::size_t>(value % 7), i);
      break;
    case 3: {
      const Numbers copy = found;
      EXPECT_TRUE(copy == found);
      found.push_back(-1);
      EXPECT_FALSE(copy == found);
      found = copy;
      break;
    }
    case 4: {
      Numbers moved = std::move(found);
      EXPECT_TRUE(found.empty());
      found = std::move(moved);
      break;
    }
    default:
      if (value < 20) {
        found.clear();
        expected.clear();
      }
    }
    expect_equal(found, expected);
  }
}

TEST(InlineVector, ConstructionAndElements) {
  expect_equal(Numbers(5, 4), {4, 4, 4, 4, 4});
  expect_equal(Numbers{1, 2}, {1, 2});
  Numbers few{1, 2, 3};
  few[1] = 9;
  few.resize(5, few[1]); // an element of its own, which moves
  expect_equal(few, {1, 9, 3, 9, 9});
}

TEST(InlineVector, DropsWhatItHeld) {
  const auto object = std::make_shared<int>(1);
  InlineVector<std::shared_ptr<int>, 2> held;
  for (const std::size_t count : {1u, 2u, 3u, 5u}) {
    held.resize(count, object);
    EXPECT_EQ(object.use_count(), static_cast<long>(count) + 1);
  }
  for (const std::size_t count : {4u, 2u, 1u, 0u}) {
    held.resize(count);
    EXPECT_EQ(object.use_count(), static_cast<long>(count) + 1);
  }
}

TEST(Recycle, BlocksComeBackAndAreAligned) {
  for (const std::size_t bytes : {1u, 64u, 65u, 2000u, 5000u}) {
    std::vector<void*> blocks;
    for (int i = 0; i < 100; ++i) { // more than are kept
      blocks.push_back(take_recycled(bytes));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % alignof(std::max_align_t), 0u);
      std::fill_n(static_cast<unsigned char*>(blocks.back()), bytes, static_cast<unsigned char>(i));
    }
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(static_cast<unsigned char*>(blocks[static_cast<std::size_t>(i)])[bytes - 1], i);
      recycle(blocks[static_cast<std::size_t>(i)], bytes);
    }
  }
}

TEST(Callable, CallsWhatItHoldsAndLetsItGo) {
  const auto object = std::make_shared<int>(3);
  {
    Callable<int(int)> add = [object](int value) { return *object + value; };
    Callable<int(int)> moved = std::move(add);
    EXPECT_EQ(moved(4), 7);
    EXPECT_EQ(object.use_count(), 2);
    moved = [own = std::make_unique<int>(5)](int value) { return *own * value; };
    EXPECT_EQ(moved(4), 20);
    EXPECT_EQ(object.use_count(), 1);
  }
}

} // namespace
} // namespace ostraka::test
