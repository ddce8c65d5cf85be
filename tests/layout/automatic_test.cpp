// SPDX-License-Identifier: Apache-2.0
// Policies flat and automatic by their stated rules, and the builder that takes the policy at run time.
#include "layout_test.hpp"

namespace ostraka::layout::test {
namespace {

struct Set {
  std::vector<Shape> shapes;
  Atoms atoms;
  int segments;
  Alignment alignment;
};

Set draw_set(Random& random) {
  const auto count = static_cast<std::size_t>(random.draw(0, 10));
  return {random.shapes(count, random.draw(0, 1) == 0 ? 40 : 1000),
          random.atoms(count),
          static_cast<int>(random.draw(1, 9)),
          {random.draw(1, 4), random.draw(1, 4)}};
}

struct Seen {
  int little_padding = 0, ragged = 0;
};

void check_rule(const Set& set, Seen& seen) {
  const auto& [shapes, atoms, segments, alignment] = set;
  SCOPED_TRACE(describe(shapes, segments, atoms, alignment));
  const GlobalLayout planned = build_planned(shapes, segments, alignment, atoms);
  const GlobalLayout ragged = build_ragged(shapes, segments, atoms);
  const GlobalLayout found = build_automatic(shapes, segments, alignment, atoms);
  const bool little_padding = 100 * planned.padding() <= 3 * planned.payload();
  ASSERT_EQ(found, little_padding ? planned : ragged);
  const std::string reason = little_padding ? "the padding of planned is at most 3 % of the payload"
                                            : "planned would pad more than 3 % of the payload";
  ASSERT_EQ(found.reason(), reason);
  ++(little_padding ? seen.little_padding : seen.ragged);
  // Never worse than ragged by more than 3 % of the payload.
  ASSERT_LE(100 * found.segment_size() * segments, 100 * ragged.segment_size() * segments + 3 * ragged.payload());

  const GlobalLayout equal = build_automatic(shapes, segments, alignment, atoms, true);
  ASSERT_EQ(equal, planned);
  ASSERT_EQ(equal.reason(), "equal segments are required; " + planned.reason());
  ASSERT_EQ(build(Policy::automatic, shapes, segments, alignment, atoms), found);
}

void check_many(std::uint64_t seed) {
  Random random(seed);
  Seen seen;
  for (int round = 0; round < 600 && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    check_rule(draw_set(random), seen);
  }
  EXPECT_GT(seen.little_padding, 20);
  EXPECT_GT(seen.ragged, 20);
}

TEST(Automatic, RuleFixedSeed) { check_many(3); }
TEST(Automatic, RuleFreshSeed) { check_many(fresh_seed()); }

// One tensor of tensor atom: planned pads (N - 1) x its size, but so does ragged's largest segment.
TEST(Automatic, ExactlyThreePercentIsPlanned) {
  // 100 elements, segments of 103 and 104: padding 3 and 4. Ragged needs 100.
  const auto chosen = [](std::int64_t multiple) {
    return build_automatic({{100}}, 1, {.tensor = 1, .segment = multiple}).policy();
  };
  EXPECT_EQ(chosen(103), Policy::planned);
  EXPECT_EQ(chosen(104), Policy::ragged);
}

TEST(Automatic, EmptySetsArePlanned) {
  EXPECT_EQ(build_automatic({}, 3).policy(), Policy::planned);
  EXPECT_EQ(build_automatic({{0, 4}, {3, 0}}, 3, {}, {row_atom()}).policy(), Policy::planned);
}

TEST(Flat, PaddingIsBoundedByTheAlignment) {
  Random random(37);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<Shape> shapes = random.shapes(static_cast<std::size_t>(random.draw(0, 12)), 200);
    const int segments = static_cast<int>(random.draw(1, 16));
    const Alignment alignment{random.draw(1, 32), random.draw(1, 16)};
    SCOPED_TRACE(describe(shapes, segments, {}, alignment));
    const GlobalLayout layout = build_flat(shapes, segments, alignment);
    ASSERT_EQ(layout.policy(), Policy::flat);
    expect_legal(layout, {}, alignment);
    ASSERT_EQ(layout.segment_size() % alignment.segment, 0);
    std::int64_t tensors = 0; // gaps stand in front of every tensor but one
    for (const Shape& shape : shapes)
      tensors += naive_numel(shape) > 0 ? 1 : 0;
    const std::int64_t gaps = std::max<std::int64_t>(tensors - 1, 0) * (alignment.tensor - 1);
    // Equal segments of whole multiples: less than one multiple a rank.
    ASSERT_LE(layout.padding(), gaps + segments * alignment.segment - 1);
    if (alignment.tensor == 1) {
      const std::int64_t unit = segments * alignment.segment;
      ASSERT_EQ(layout.size(), (layout.payload() + unit - 1) / unit * unit);
    }
  }
}

TEST(Flat, Case37) {
  const GlobalLayout layout = build_flat({{128}, {2560}}, 3, {.tensor = 32, .segment = 8}); // bf16: 64 and 16 bytes
  EXPECT_EQ(layout.segment_size(), 896);
  EXPECT_EQ(layout.padding(), 0);
}

TEST(Build, GivesWhatTheBuilderOfThePolicyGives) {
  Random random(88);
  for (int round = 0; round < 200; ++round) {
    const Set set = draw_set(random);
    const auto& [shapes, atoms, segments, alignment] = set;
    SCOPED_TRACE(describe(shapes, segments, atoms, alignment));
    ASSERT_EQ(build(Policy::planned, shapes, segments, alignment, atoms),
              build_planned(shapes, segments, alignment, atoms));
    ASSERT_EQ(build(Policy::ragged, shapes, segments, {}, atoms), build_ragged(shapes, segments, atoms));
    ASSERT_EQ(build(Policy::flat, shapes, segments, alignment), build_flat(shapes, segments, alignment));
  }
}

TEST(Build, ReferenceTakesRowsOrBlocks) {
  const std::vector<Shape> shapes{{4, 6}, {8, 4}};
  EXPECT_EQ(build(Policy::reference, shapes, 2), build_reference(shapes, 2));
  EXPECT_EQ(build(Policy::reference, shapes, 2, {}, {row_atom()}), build_reference(shapes, 2));
  EXPECT_EQ(build(Policy::reference, shapes, 2, {}, {block_atom(2)}), build_reference(shapes, 2, 2));
  EXPECT_EQ(build(Policy::reference, shapes, 2, {}, {block_atom(2), block_atom(2)}), build_reference(shapes, 2, 2));
  expect_invalid(
      [&] {
        build(Policy::reference, shapes, 2, {}, {row_atom(), block_atom(2)});
      },
      {"reference", "one atom for all", "dim-0 row", "block of 2 rows"});
  for (const Atom& atom : {element_atom(), last_dims_atom(1), tensor_atom()})
    expect_invalid([&] { build(Policy::reference, shapes, 2, {}, {atom}); }, {"reference", to_string(atom)});
  expect_invalid([&] { build(Policy::reference, shapes, 2, {.tensor = 8, .segment = 1}); }, {"no alignment", "8"});
  expect_invalid([&] { build(Policy::reference, shapes, 2, {.tensor = 1, .segment = 4}); }, {"no alignment", "4"});
}

TEST(Build, RefusesWhatAPolicyCannotDo) {
  expect_invalid([] { build(Policy::flat, {{4}}, 2, {}, {row_atom()}); }, {"flat", "no atoms", "found 1"});
  expect_invalid([] { build(static_cast<Policy>(6), {{4}}, 2); }, {"policy", "6"});
  expect_invalid([] { build(static_cast<Policy>(-1), {{4}}, 2); }, {"policy", "-1"});
  for (const Policy policy : {Policy::planned, Policy::flat, Policy::automatic}) {
    expect_invalid([&] { build(policy, {{4}}, 2, {.tensor = 0, .segment = 1}); }, {"tensor alignment", "found 0"});
    expect_invalid([&] { build(policy, {{4}}, 2, {.tensor = 1, .segment = 0}); }, {"segment alignment", "found 0"});
  }
  for (const Policy policy : {Policy::reference, Policy::planned, Policy::ragged, Policy::flat, Policy::automatic})
    for (const int segments : {0, -3})
      expect_invalid([&] { build(policy, {{4}}, segments); }, {"segments >= 1", "found " + std::to_string(segments)});
}

} // namespace
} // namespace ostraka::layout::test
