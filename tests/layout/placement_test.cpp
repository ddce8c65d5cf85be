// SPDX-License-Identifier: Apache-2.0
#include "layout_test.hpp"

namespace ostraka::layout::test {
namespace {

TEST(Placement, EqualityIsByKindAndReduction) {
  EXPECT_EQ(replicate(), replicate());
  EXPECT_NE(replicate(), shard());
  EXPECT_NE(partial(), shard());
  EXPECT_NE(partial(ReduceOp::sum), partial(ReduceOp::mean));
  EXPECT_EQ(partial(), partial(ReduceOp::sum));
  // The reduction means nothing for other kinds.
  EXPECT_EQ(shard(), (Placement{Placement::Kind::shard, ReduceOp::mean}));
}

TEST(Placement, Text) {
  EXPECT_EQ(to_string(Placements{}), "[]");
  EXPECT_EQ(to_string(Placements{replicate(), shard()}), "[Replicate, Shard]");
  EXPECT_EQ(to_string(Placements{partial()}), "[Partial(sum)]");
  EXPECT_EQ(to_string(Placements{partial(ReduceOp::mean), shard()}), "[Partial(mean), Shard]");
  EXPECT_EQ(to_string(Placements{{static_cast<Placement::Kind>(7), ReduceOp::sum}}), "[unknown 7]");
}

TEST(Placement, LegalListsHaveTheirShardAxesLast) {
  const Placements every[] = {{replicate(), shard()},
                              {partial(), shard()},
                              {shard(), shard()},
                              {replicate(), replicate()},
                              {partial(ReduceOp::mean), replicate()},
                              {replicate(), partial()}};
  for (const Placements& placements : every)
    EXPECT_NO_THROW(validate(placements, 2)) << to_string(placements);
  EXPECT_NO_THROW(validate(Placements{shard()}, 1));
  EXPECT_NO_THROW(validate(Placements{replicate(), shard(), shard()}, 3));
  EXPECT_NO_THROW(validate(Placements{}, 0));
}

TEST(Placement, ShardBeforeAnotherKindIsRefused) {
  for (const Placements& placements :
       {Placements{shard(), replicate()}, {shard(), partial()}, {shard(), partial(ReduceOp::mean)}})
    expect_invalid([&] { validate(placements, 2); }, {"must be a suffix", to_string(placements)});
  expect_invalid(
      [] {
        validate(Placements{shard(), replicate(), shard()}, 3);
      },
      {"must be a suffix", "axis 1", "found Replicate"});
  expect_invalid(
      [] {
        validate(Placements{replicate(), shard(), partial()}, 3);
      },
      {"must be a suffix", "axis 2", "found Partial(sum)"});
}

TEST(Placement, CountMustEqualTheMesh) {
  expect_invalid([] { validate(Placements{shard()}, 2); }, {"expected 2 placements", "found 1", "[Shard]"});
  expect_invalid([] { validate(Placements{shard(), shard()}, 1); }, {"expected 1 placements", "found 2"});
  expect_invalid([] { validate(Placements{}, 1); }, {"expected 1 placements", "found 0"});
  expect_invalid([] { validate(Placements{}, -1); }, {"expected -1 placements"});
}

TEST(Placement, NumbersThatAreNoPlacementAreRefused) {
  const auto kind = static_cast<Placement::Kind>(7);
  const auto op = static_cast<ReduceOp>(9);
  expect_invalid([&] { validate(Placements{replicate(), {kind, ReduceOp::sum}}, 2); }, {"axis 1", "unknown 7"});
  expect_invalid([&] { validate(Placements{partial(op)}, 1); }, {"axis 0", "Partial(unknown 9)"});
}

} // namespace
} // namespace ostraka::layout::test
