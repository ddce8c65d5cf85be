// SPDX-License-Identifier: Apache-2.0
#include "layout_test.hpp"

namespace ostraka::layout::test {
namespace {

using Counts = std::vector<std::int64_t>;

TEST(Planned, TensorsFollowEachOther) {
  const GlobalLayout layout = build_planned({{5, 4}, {2, 6}, {3}}, 2);
  EXPECT_EQ(layout.policy(), Policy::planned);
  EXPECT_EQ(offsets_of(layout), (Counts{0, 20, 32}));
  EXPECT_EQ(layout.size(), 36);
  EXPECT_EQ(layout.segment_size(), 18); // tensor 0's last row is cut
}

TEST(Planned, TensorAlignment) {
  const GlobalLayout layout = build_planned({{5}, {8}, {3}, {}}, 2, {.tensor = 8, .segment = 1});
  EXPECT_EQ(offsets_of(layout), (Counts{0, 8, 16, 24}));
  EXPECT_EQ(layout.size(), 26);
  EXPECT_EQ(layout.gaps({0, 26}), (std::vector<Range>{{5, 8}, {19, 24}, {25, 26}}));
}

TEST(Planned, SegmentAlignment) {
  const GlobalLayout layout = build_planned({{17}}, 4, {.tensor = 1, .segment = 4});
  EXPECT_EQ(layout.segment_size(), 8);
  EXPECT_EQ(layout.size(), 32);
  EXPECT_EQ(build_planned({{16}}, 4, {.tensor = 1, .segment = 4}).size(), 16);
}

TEST(Planned, FewerElementsThanSegments) {
  const GlobalLayout layout = build_planned({{3}}, 8);
  EXPECT_EQ(layout.segment_size(), 1);
  EXPECT_EQ(layout.size(), 8);
}

TEST(Planned, NothingToPlace) {
  for (const std::vector<Shape>& shapes : {std::vector<Shape>{}, {{0, 4}}, {{4, 0}, {0}}}) {
    const GlobalLayout layout = build_planned(shapes, 3, {.tensor = 8, .segment = 4});
    EXPECT_EQ(layout.size(), 0);
    EXPECT_EQ(layout.payload(), 0);
  }
}

// Whatever their place in the list: the begin of the buffer is aligned and costs nothing.
TEST(Planned, EmptyTensorsStandAtTheBegin) {
  const Alignment alignment{.tensor = 8, .segment = 1};
  const GlobalLayout layout = build_planned({{0, 4}, {5}, {3, 0}, {4}, {0}}, 1, alignment);
  EXPECT_EQ(layout.tensor_range(1), (Range{0, 5}));
  EXPECT_EQ(layout.tensor_range(3), (Range{8, 12}));
  EXPECT_EQ(layout.size(), 12);
  for (const int i : {0, 2, 4})
    EXPECT_EQ(layout.tensor_range(i), (Range{0, 0}));
}

TEST(PlannedCases, Case35CoprimeRows) {
  EXPECT_EQ(build_planned({{3, 7}, {3, 11}, {3, 13}}, 4).size(), 96);
  EXPECT_LE(build_planned({{3, 7}, {3, 11}, {3, 13}}, 4, {.tensor = 1, .segment = 4}).size(), 104);
}

TEST(PlannedCases, Case37SegmentsOfSixteenBytes) {
  const GlobalLayout layout = build_planned({{128}, {2560}}, 3, {.tensor = 32, .segment = 8}); // bf16: 64 and 16 bytes
  EXPECT_EQ(layout.segment_size(), 896);
  EXPECT_EQ(layout.padding(), 0);
}

TEST(PlannedCases, Case39ThreeThousandMillionElements) {
  const GlobalLayout layout = build_planned({{3'000'000'000}, {3'000'000'000}}, 2, {.tensor = 16, .segment = 4});
  EXPECT_EQ(offsets_of(layout), (Counts{0, 3'000'000'000}));
  EXPECT_EQ(rank_range(layout, 2, 1), (Range{3'000'000'000, 6'000'000'000}));
  EXPECT_EQ(rank_range(build_planned({{3'000'000'000}}, 2), 2, 1), (Range{1'500'000'000, 3'000'000'000}));
}

TEST(PlannedErrors, Arguments) {
  expect_invalid([] { build_planned({{3}}, 0); }, {"build_planned", "segments >= 1", "found 0"});
  expect_invalid([] { build_planned({{3}}, 1, {.tensor = 0, .segment = 1}); }, {"tensor alignment", "found 0"});
  expect_invalid([] { build_planned({{3}}, 1, {.tensor = 1, .segment = -4}); }, {"segment alignment", "found -4"});
  expect_invalid([] { build_planned({{3}, {2, -1}}, 1); }, {"tensor 1 of shape (2, -1)", "found -1"});
}

TEST(PlannedErrors, SizesBeyondSixtyFourBits) {
  const std::int64_t huge = std::int64_t{1} << 62;
  expect_invalid([&] { build_planned({{3}, {huge, 4}}, 1); }, {"tensor 1 of shape", "64 bits"});
  expect_invalid([&] { build_planned({{huge}, {huge}}, 1); }, {"tensor 1 of shape", "64 bits"});
  expect_invalid(
      [&] {
        build_planned({{2 * (huge - 1)}, {1}}, 1, {.tensor = huge, .segment = 1});
      },
      {"offset", "64 bits"});
  expect_invalid([&] { build_planned({{1}}, 2, {.tensor = 1, .segment = huge}); }, {"64 bits"});
  expect_invalid([&] { build_planned({{huge}, {1}}, 3, {.tensor = 1, .segment = huge}); }, {"64 bits"});
}

// Element atoms: nothing but alignment costs padding.
TEST(Planned, RandomLayoutsAreTightAndAligned) {
  Random random(20260901);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Shape> shapes = random.shapes(static_cast<std::size_t>(random.draw(0, 6)), 90);
    const int segments = static_cast<int>(random.draw(1, 9));
    const Alignment alignment{.tensor = random.draw(1, 16), .segment = random.draw(1, 16)};
    const GlobalLayout layout = build_planned(shapes, segments, alignment);
    SCOPED_TRACE(describe(shapes, segments, {}, alignment));
    expect_legal(layout, {}, alignment);
    ASSERT_EQ(layout.segment_size() % alignment.segment, 0);

    // The given order, each tensor at the next aligned place.
    Counts offsets;
    std::int64_t end = 0, payload = 0;
    for (const Shape& shape : shapes) {
      const std::int64_t count = naive_numel(shape);
      payload += count;
      offsets.push_back(count == 0 ? 0 : (end + alignment.tensor - 1) / alignment.tensor * alignment.tensor);
      end = count == 0 ? end : offsets.back() + count;
    }
    std::int64_t segment = 0;
    while (segment * segments < end)
      segment += alignment.segment;
    ASSERT_EQ(layout.payload(), payload);
    ASSERT_LE(layout.segment_size(), segment);
    if (layout.segment_size() == segment) {
      ASSERT_EQ(offsets_of(layout), offsets); // reordered only where that saves something
    }
    const auto tensors = static_cast<std::int64_t>(shapes.size());
    ASSERT_LT(layout.padding(), tensors * (alignment.tensor - 1) + segments * alignment.segment);
    GlobalLayout flat = build_flat(shapes, segments, alignment);
    ASSERT_EQ(flat.policy(), Policy::flat);
    ASSERT_EQ(offsets_of(flat), offsets_of(layout));
    ASSERT_EQ(flat.cuts(), layout.cuts());
  }
}

} // namespace
} // namespace ostraka::layout::test
