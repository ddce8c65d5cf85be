// SPDX-License-Identifier: Apache-2.0
#include "layout_test.hpp"

#include <limits>

namespace ostraka::layout::test {
namespace {

constexpr std::int64_t big = std::int64_t{1} << 40;

TEST(Shape, ElementsRowsAndRowSizes) {
  EXPECT_EQ(numel(Shape{5, 3}), 15);
  EXPECT_EQ(rows(Shape{5, 3}), 5);
  EXPECT_EQ(row_numel(Shape{5, 3}), 3);
  EXPECT_EQ(numel(Shape{4, 3, 2}), 24);
  EXPECT_EQ(row_numel(Shape{4, 3, 2}), 6);
  EXPECT_EQ(numel(Shape{7}), 7);
  EXPECT_EQ(rows(Shape{7}), 7);
  EXPECT_EQ(row_numel(Shape{7}), 1);
}

TEST(Shape, ZeroDimensionalIsOneRowOfOneElement) {
  EXPECT_EQ(numel(Shape{}), 1);
  EXPECT_EQ(rows(Shape{}), 1);
  EXPECT_EQ(row_numel(Shape{}), 1);
}

TEST(Shape, ZeroExtents) {
  EXPECT_EQ(numel(Shape{0, 4}), 0);
  EXPECT_EQ(rows(Shape{0, 4}), 0);
  EXPECT_EQ(row_numel(Shape{0, 4}), 4);
  EXPECT_EQ(numel(Shape{4, 0}), 0);
  EXPECT_EQ(row_numel(Shape{4, 0}), 0);
  // The zero decides, wherever it stands.
  EXPECT_EQ(numel(Shape{big, big, 0}), 0);
  EXPECT_EQ(numel(Shape{0, big, big}), 0);
}

TEST(Shape, BeyondSixtyFourBits) {
  EXPECT_EQ(numel(Shape{3, 1'000'000'000}), 3'000'000'000);
  EXPECT_EQ(numel(Shape{std::numeric_limits<std::int64_t>::max()}), std::numeric_limits<std::int64_t>::max());
  expect_invalid([] { numel(Shape{big, big}); }, {"(1099511627776, 1099511627776)", "64 bits"});
  expect_invalid([] { row_numel(Shape{0, big, big}); }, {"64 bits"});
  EXPECT_EQ(row_numel(Shape{big, big}), big);
}

TEST(Shape, NegativeExtentsAreRefused) {
  expect_invalid([] { numel(Shape{2, -3}); }, {"(2, -3)", "found -3", "axis 1"});
  expect_invalid([] { numel(Shape{0, -3}); }, {"found -3"});
  expect_invalid([] { numel(Shape{-2, -3}); }, {"found -2", "axis 0"});
  expect_invalid([] { row_numel(Shape{-2, 3}); }, {"found -2"});
}

TEST(Shape, Text) {
  EXPECT_EQ(to_string(Shape{5, 3}), "(5, 3)");
  EXPECT_EQ(to_string(Shape{7}), "(7)");
  EXPECT_EQ(to_string(Shape{}), "()");
}

TEST(Range, IntersectAndContain) {
  EXPECT_EQ(intersect({0, 9}, {5, 12}), (Range{5, 9}));
  EXPECT_EQ(intersect({5, 12}, {0, 9}), (Range{5, 9}));
  EXPECT_EQ(intersect({0, 3}, {5, 9}).size(), 0);
  EXPECT_EQ(intersect({5, 9}, {0, 3}).size(), 0);
  EXPECT_EQ(intersect({0, 3}, {3, 9}).size(), 0);
  EXPECT_TRUE((Range{0, 9}.contains({0, 9})));
  EXPECT_TRUE((Range{0, 9}.contains({4, 4})));
  EXPECT_FALSE((Range{0, 9}.contains({4, 10})));
  EXPECT_FALSE((Range{1, 9}.contains({0, 3})));
}

} // namespace
} // namespace ostraka::layout::test
