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

TEST(Recipe, UnknownNumber) {
  for (const int number : {-1, 1, 2, 4, 99})
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
