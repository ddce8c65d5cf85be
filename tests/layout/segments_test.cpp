// SPDX-License-Identifier: Apache-2.0
// Segments against a vector of all lengths.
#include "layout_test.hpp"

#include <limits>

namespace ostraka::layout::test {
namespace {

constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t max32 = std::numeric_limits<int>::max();

void expect_same(const Segments& segments, const std::vector<std::int64_t>& lengths) {
  ASSERT_EQ(segments.count(), static_cast<int>(lengths.size()));
  std::int64_t begin = 0;
  std::size_t runs = 0;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    const auto index = static_cast<std::int64_t>(k);
    ASSERT_EQ(segments.begin(index), begin);
    ASSERT_EQ(segments.range(index), (Range{begin, begin + lengths[k]}));
    for (std::int64_t e = begin; e < begin + lengths[k]; ++e)
      ASSERT_EQ(segments.find(e), static_cast<int>(k)) << "element " << e;
    if (k == 0 || lengths[k] != lengths[k - 1]) {
      ASSERT_LT(runs, segments.runs().size());
      ASSERT_EQ(segments.runs()[runs], (Segments::Run{index, begin, lengths[k]}));
      ++runs;
    }
    begin += lengths[k];
  }
  ASSERT_EQ(segments.runs().size(), runs);
  ASSERT_EQ(segments.are_equal(), runs <= 1);
  ASSERT_EQ(segments.size(), begin);
  ASSERT_EQ(segments.begin(segments.count()), begin);
  ASSERT_EQ(segments.largest(), lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end()));
}

void check_random(std::uint64_t seed) {
  Random random(seed);
  for (int round = 0; round < 2000 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    Segments segments;
    std::vector<std::int64_t> lengths;
    for (std::int64_t step = random.draw(0, 12); step > 0; --step) {
      const std::int64_t count = random.draw(0, 4), length = random.draw(0, 3);
      segments.append(count, length);
      lengths.insert(lengths.end(), static_cast<std::size_t>(count), length);
    }
    expect_same(segments, lengths);
  }
}

TEST(Segments, Even) {
  expect_same(Segments::even(3, 8), {3, 3, 2});
  expect_same(Segments::even(3, 9), {3, 3, 3});
  expect_same(Segments::even(4, 2), {1, 1, 0, 0});
  expect_same(Segments::even(2, 0), {0, 0});
}

TEST(Segments, FixedSeed) { check_random(7); }
TEST(Segments, FreshSeed) { check_random(fresh_seed()); }

TEST(Segments, Equal) {
  expect_same(Segments::equal(4, 3), {3, 3, 3, 3});
  expect_same(Segments::equal(3, 0), {0, 0, 0});
  expect_same(Segments::equal(0, 5), {});
  expect_same(Segments(), {});
  EXPECT_EQ(Segments::equal(0, 5), Segments());
}

TEST(Segments, EqualRunsAreMerged) {
  Segments merged;
  merged.append(2, 5);
  merged.append(0, 9); // adds nothing and separates nothing
  merged.append(3, 5);
  EXPECT_EQ(merged, Segments::equal(5, 5));
  EXPECT_EQ(merged.runs().size(), 1u);
  Segments other = merged;
  other.append(1, 4);
  EXPECT_NE(other, merged);
  EXPECT_FALSE(other.are_equal());
}

TEST(Segments, EmptySegmentsHoldNothing) {
  Segments segments;
  segments.append(2, 0);
  segments.append(1, 3);
  segments.append(2, 0);
  segments.append(1, 1);
  segments.append(4, 0);
  expect_same(segments, {0, 0, 3, 0, 0, 1, 0, 0, 0, 0});
}

TEST(Segments, FailedAppendChangesNothing) {
  Segments segments;
  segments.append(2, 4);
  const Segments before = segments;
  expect_invalid([&] { segments.append(-1, 4); }, {"count and a length >= 0", "-1 of 4"});
  expect_invalid([&] { segments.append(1, -4); }, {"1 of -4"});
  expect_invalid([&] { segments.append(0, -4); }, {"0 of -4"});
  expect_invalid([&] { segments.append(2, max64 / 2); }, {"64 bits"});
  expect_invalid([&] { segments.append(4, max64 / 2); }, {"64 bits"});
  expect_invalid([&] { segments.append(max64, 1); }, {"64 bits"});
  try {
    segments.append(max32 - 1, 0);
    ADD_FAILURE() << "more than 32 bits of segments";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("32 bits"), std::string::npos) << error.what();
  }
  EXPECT_EQ(segments, before);
  expect_same(segments, {4, 4});
}

TEST(Segments, LargestSizes) {
  Segments segments = Segments::equal(1, max64);
  EXPECT_EQ(segments.size(), max64);
  EXPECT_EQ(segments.find(max64 - 1), 0);
  segments.append(max32 - 1, 0);
  EXPECT_EQ(segments.count(), max32);
  EXPECT_EQ(segments.begin(max32), max64);
  const Segments wide = Segments::equal(static_cast<int>(max32), std::int64_t{1} << 31);
  EXPECT_EQ(wide.begin(max32 - 1), (max32 - 1) << 31);
  EXPECT_EQ(wide.find(wide.size() - 1), max32 - 1);
}

} // namespace
} // namespace ostraka::layout::test
