// SPDX-License-Identifier: Apache-2.0
#include "layout_test.hpp"

#include <nlohmann/json.hpp>

#include <cstdio>

namespace ostraka::layout::test {
namespace {

TEST(Report, PolicyNames) {
  const char* names[] = {"reference", "planned", "ragged", "flat", "tensor_atomic", "automatic"};
  for (int number = 0; number < 6; ++number)
    EXPECT_STREQ(name(static_cast<Policy>(number)), names[number]);
  expect_invalid([] { name(static_cast<Policy>(6)); }, {"policy", "found 6"});
  expect_invalid([] { name(static_cast<Policy>(-1)); }, {"policy", "found -1"});
}

TEST(Report, OneLine) {
  EXPECT_EQ(to_text(report(build_reference({{5, 3}, {4, 3}, {7}}, 4))),
            "reference: 3 tensors, payload 34, padding 2 (5.9 %), 4 segments of at most 9 elements");
  EXPECT_EQ(to_text(report(build_planned({{5, 3}, {4, 3}, {7}}, 2))),
            "planned: 3 tensors, payload 34, padding 0 (0.0 %), 2 segments of at most 17 elements; the segment meets "
            "the lower bound");
  EXPECT_EQ(to_text(report(build_reference({{1, 4096}}, 64))),
            "reference: 1 tensors, payload 4096, padding 258048 (6300.0 %), 64 segments of at most 4096 elements");
}

TEST(Report, NoPayload) {
  EXPECT_EQ(to_text(report(build_reference({}, 2))),
            "reference: 0 tensors, payload 0, padding 0 (- %), 2 segments of at most 0 elements");
  const LayoutReport padding_only = report(GlobalLayout(Policy::planned, {}, {}, 2, 3));
  EXPECT_EQ(padding_only.padding, 6);
  EXPECT_EQ(padding_only.overhead, 0);
  EXPECT_EQ(to_text(padding_only), "planned: 0 tensors, payload 0, padding 6 (- %), 2 segments of at most 3 elements");
}

// What the report must say, from the list of all segments and tensors.
void expect_consistent(const GlobalLayout& layout) {
  const LayoutReport found = report(layout);
  std::int64_t largest = 0, sum = 0, payload = 0;
  for (int k = 0; k < layout.segments(); ++k) {
    largest = std::max(largest, layout.segment_range(k).size());
    sum += layout.segment_range(k).size();
  }
  for (const Shape& shape : layout.shapes())
    payload += naive_numel(shape);
  EXPECT_EQ(found.policy, layout.policy());
  EXPECT_EQ(found.reason, layout.reason());
  EXPECT_EQ(found.segments, layout.segments());
  EXPECT_EQ(found.payload, payload);
  EXPECT_EQ(found.padding, sum - payload);
  EXPECT_EQ(found.largest_segment, largest);
  EXPECT_DOUBLE_EQ(found.mean_segment, static_cast<double>(sum) / layout.segments());
  const double all = static_cast<double>(largest * layout.segments());
  EXPECT_NEAR(found.overhead, payload == 0 ? 0 : (all - static_cast<double>(payload)) / static_cast<double>(payload),
              1e-12);

  const auto json = nlohmann::json::parse(to_json(found));
  EXPECT_EQ(json.size(), 9u);
  EXPECT_EQ(json.at("policy"), name(layout.policy()));
  EXPECT_EQ(json.at("reason"), layout.reason());
  EXPECT_EQ(json.at("payload"), payload);
  EXPECT_EQ(json.at("padding"), sum - payload);
  EXPECT_EQ(json.at("segments"), layout.segments());
  EXPECT_EQ(json.at("largest_segment"), largest);
  EXPECT_EQ(json.at("mean_segment").get<double>(), found.mean_segment);
  EXPECT_EQ(json.at("overhead").get<double>(), found.overhead);
  ASSERT_EQ(json.at("owners").size(), layout.shapes().size());
  for (int i = 0; i < layout.num_tensors(); ++i) {
    const auto& pair = json.at("owners").at(static_cast<std::size_t>(i));
    EXPECT_EQ(pair, (std::vector<int>{layout.owners(i).first, layout.owners(i).last}));
  }

  char policy[32] = {}, percent[32] = {};
  int tensors = -1, segments = -1, reason_at = -1;
  long long text_payload = -1, text_padding = -1, text_largest = -1;
  const std::string text = to_text(found);
  EXPECT_EQ(std::sscanf(text.c_str(),
                        "%31[a-z_]: %d tensors, payload %lld, padding %lld (%31s %%), %d segments of at most %lld "
                        "elements%n",
                        policy, &tensors, &text_payload, &text_padding, percent, &segments, &text_largest, &reason_at),
            7)
      << text;
  EXPECT_STREQ(policy, name(layout.policy()));
  EXPECT_EQ(tensors, layout.num_tensors());
  EXPECT_EQ(text_payload, payload);
  EXPECT_EQ(text_padding, sum - payload);
  EXPECT_EQ(segments, layout.segments());
  EXPECT_EQ(text_largest, largest);
  if (payload > 0) {
    EXPECT_NEAR(std::strtod(percent, nullptr), 100 * static_cast<double>(sum - payload) / static_cast<double>(payload),
                0.0501);
  }
  ASSERT_GE(reason_at, 0);
  EXPECT_EQ(text.substr(static_cast<std::size_t>(reason_at)), layout.reason().empty() ? "" : "; " + layout.reason());
}

TEST(Report, TextAndJsonSayWhatTheLayoutIs) {
  Random random(11);
  for (int round = 0; round < 200 && !testing::Test::HasFailure(); ++round) {
    const auto count = static_cast<std::size_t>(random.draw(0, 6));
    const std::vector<Shape> shapes = random.shapes(count, 30);
    const int segments = static_cast<int>(random.draw(1, 9));
    const Atoms atoms = random.atoms(count);
    SCOPED_TRACE(describe(shapes, segments, atoms));
    expect_consistent(build_planned(shapes, segments, {random.draw(1, 4), random.draw(1, 4)}, atoms));
    expect_consistent(build_flat(shapes, segments));
    expect_consistent(build_ragged(shapes, segments, atoms));
    expect_consistent(build_automatic(shapes, segments, {}, atoms));
    std::vector<int> owners;
    for (std::size_t i = 0; i < count; ++i)
      owners.push_back(static_cast<int>(random.draw(0, segments - 1)));
    expect_consistent(build_tensor_atomic(shapes, segments, owners));
  }
  expect_consistent(build_reference({{5, 4}, {0, 4}, {2, 6}, {3}}, 2));
}

TEST(Report, JsonEscapesTheReason) {
  GlobalLayout layout = build_reference({{4}}, 2);
  layout.set_reason("\"quoted\"\\\n");
  EXPECT_EQ(nlohmann::json::parse(to_json(report(layout))).at("reason"), layout.reason());
}

TEST(Report, LargeNumbersAreExact) {
  const GlobalLayout layout = build_planned({{3'000'000'001}, {(std::int64_t{1} << 60) + 1}}, 3);
  const auto json = nlohmann::json::parse(to_json(report(layout)));
  EXPECT_EQ(json.at("payload").get<std::int64_t>(), 3'000'000'001 + (std::int64_t{1} << 60) + 1);
  EXPECT_EQ(json.at("largest_segment").get<std::int64_t>(), layout.segment_size());
}

} // namespace
} // namespace ostraka::layout::test
