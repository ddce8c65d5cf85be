// SPDX-License-Identifier: Apache-2.0
// Spec 3.3.
#include "support/expect_error.hpp"
#include <ostraka/fsdp/recipe.hpp>

#include <gtest/gtest.h>

namespace ostraka::fsdp::test {
namespace {

using layout::partial;
using layout::Placements;
using layout::ReduceOp;
using layout::replicate;
using layout::shard;

TEST(Recipe, Zero3ShardsEverything) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    const RecipePlacements placements = placements_of(Recipe::zero_3, 1, op);
    EXPECT_EQ(placements.parameter, Placements{shard()});
    EXPECT_EQ(placements.gradient, Placements{shard()});
    EXPECT_EQ(placements.optimizer, Placements{shard()});
  }
}

TEST(Recipe, NoShardReplicatesAndKeepsPartialGradients) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    const RecipePlacements placements = placements_of(Recipe::no_shard, 1, op);
    EXPECT_EQ(placements.parameter, Placements{replicate()});
    EXPECT_EQ(placements.gradient, Placements{partial(op)});
    EXPECT_EQ(placements.optimizer, Placements{replicate()});
  }
}

TEST(Recipe, OnePlacementPerAxis) {
  EXPECT_EQ(placements_of(Recipe::zero_3, 2, ReduceOp::sum).parameter, (Placements{shard(), shard()}));
  EXPECT_EQ(placements_of(Recipe::no_shard, 3, ReduceOp::mean).gradient,
            (Placements{partial(ReduceOp::mean), partial(ReduceOp::mean), partial(ReduceOp::mean)}));
}

TEST(Recipe, TableOfTwoAxes) { // spec 3.3
  const auto op = ReduceOp::mean;
  const Placements rr{replicate(), replicate()}, rs{replicate(), shard()}, ss{shard(), shard()},
      pp{partial(op), partial(op)}, ps{partial(op), shard()};
  EXPECT_EQ(placements_of(Recipe::no_shard, 2, op), (RecipePlacements{rr, pp, rr}));
  EXPECT_EQ(placements_of(Recipe::zero_1, 2, op), (RecipePlacements{rr, pp, ss}));
  EXPECT_EQ(placements_of(Recipe::zero_2, 2, op), (RecipePlacements{rr, ss, ss}));
  EXPECT_EQ(placements_of(Recipe::zero_3, 2, op), (RecipePlacements{ss, ss, ss}));
  EXPECT_EQ(placements_of(Recipe::hsdp, 2, op), (RecipePlacements{rs, ps, rs}));
  EXPECT_EQ(placements_of(Recipe::hfsdp, 2, op), (RecipePlacements{rs, ps, ss}));
  EXPECT_EQ(placements_of(Recipe::zero_1_zero_2, 2, op), (RecipePlacements{rr, ps, ss}));
}

TEST(Recipe, OuterAxesOfHybridRecipesReplicate) {
  const auto op = ReduceOp::sum;
  EXPECT_EQ(placements_of(Recipe::hsdp, 3, op).parameter, (Placements{replicate(), replicate(), shard()}));
  EXPECT_EQ(placements_of(Recipe::hsdp, 3, op).gradient, (Placements{partial(op), partial(op), shard()}));
}

TEST(Recipe, HybridRecipesNeedTwoAxes) {
  for (const Recipe recipe : {Recipe::hsdp, Recipe::hfsdp, Recipe::zero_1_zero_2})
    ostraka::test::expect_error(Status::INVALID_ARGUMENT, [&] { placements_of(recipe, 1, ReduceOp::sum); },
                                {"two axes", "found 1"});
}

void expect_refused(const RecipePlacements& placements, std::initializer_list<std::string> words) {
  ostraka::test::expect_error(
      Status::INVALID_ARGUMENT, [&] { validate(placements, 2, ReduceOp::sum); }, words);
}

TEST(Recipe, ByHandTheRuleThatIsBrokenIsNamed) {
  const Placements rr{replicate(), replicate()}, rs{replicate(), shard()}, sr{shard(), replicate()},
      ss{shard(), shard()}, pp{partial(), partial()}, ps{partial(), shard()};
  EXPECT_NO_THROW(validate({rs, ps, ss}, 2, ReduceOp::sum));
  expect_refused({sr, ps, ss}, {"suffix"});
  expect_refused({{shard()}, ps, ss}, {"expected 2 placements"});
  expect_refused({ps, ps, ss}, {"axis 0", "weights", "Partial"});
  expect_refused({rs, ps, ps}, {"axis 0", "optimizer state", "Partial"});
  expect_refused({ss, ps, rs}, {"axis 0", "shards weights", "optimizer state"});
  expect_refused({rs, ss, rs}, {"axis 0", "shards gradients", "optimizer state"});
  expect_refused({rs, {partial(ReduceOp::mean), shard()}, ss}, {"axis 0", "Partial(sum)", "Partial(mean)"});
  ContextConfig config;
  config.placements = RecipePlacements{rr, pp, rr};
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [&] { placements_of(config, 2); }, {"Partial(mean)"});
}

TEST(Recipe, UnknownNumber) {
  for (const int number : {-1, 7, 99})
    ostraka::test::expect_error(Status::INVALID_ARGUMENT,
                                [&] { placements_of(static_cast<Recipe>(number), 1, ReduceOp::sum); },
                                {"recipe", std::to_string(number)});
}

TEST(Recipe, DefaultsAreThoseOfTheDesign) {
  const ContextConfig config;
  EXPECT_EQ(config.recipe, Recipe::zero_3);
  EXPECT_EQ(config.reduction, ReduceOp::mean);
  EXPECT_EQ(config.gradient_slots, 2);
  EXPECT_FALSE(config.broadcast);
  EXPECT_FALSE(config.main_dtype.has_value());
}

} // namespace
} // namespace ostraka::fsdp::test
