// SPDX-License-Identifier: Apache-2.0
#include "layout_test.hpp"

namespace ostraka::layout::test {
namespace {

TEST(Report, PolicyNames) {
  EXPECT_STREQ(name(Policy::reference), "reference");
  EXPECT_STREQ(name(Policy::planned), "planned");
  expect_invalid([] { name(static_cast<Policy>(2)); }, {"policy", "found 2"});
}

TEST(Report, OneLine) {
  EXPECT_EQ(report(build_reference({{5, 3}, {4, 3}, {7}}, 4)),
            "reference: 3 tensors, payload 34, padding 2 (5.9 %), 4 segments of 9 elements");
  EXPECT_EQ(report(build_planned({{5, 3}, {4, 3}, {7}}, 2)),
            "planned: 3 tensors, payload 34, padding 0 (0.0 %), 2 segments of 17 elements");
  EXPECT_EQ(report(build_reference({{1, 4096}}, 64)),
            "reference: 1 tensors, payload 4096, padding 258048 (6300.0 %), 64 segments of 4096 elements");
}

TEST(Report, NoPayload) {
  EXPECT_EQ(report(build_reference({}, 2)),
            "reference: 0 tensors, payload 0, padding 0 (- %), 2 segments of 0 elements");
  EXPECT_EQ(report(GlobalLayout(Policy::planned, {}, {}, 2, 3)),
            "planned: 0 tensors, payload 0, padding 6 (- %), 2 segments of 3 elements");
}

} // namespace
} // namespace ostraka::layout::test
