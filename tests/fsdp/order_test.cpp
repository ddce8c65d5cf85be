// SPDX-License-Identifier: Apache-2.0
// Spec 3.6 - 3.8: orders recorded at run time, repeats allowed.
#include <ostraka/fsdp/order.hpp>

#include <gtest/gtest.h>

namespace ostraka::fsdp::test {
namespace {

constexpr int none = -1;
using Predictions = std::vector<int>;

/// Visits `modules`; what is predicted to come after each of them.
Predictions visit_all(Order& order, const std::vector<int>& modules) {
  Predictions predictions;
  for (const int module : modules) {
    order.visit(module);
    predictions.push_back(order.next().value_or(none));
  }
  return predictions;
}

TEST(Order, PredictsNothingBeforeAnythingIsKnown) {
  Order order;
  EXPECT_FALSE(order.next().has_value());
  EXPECT_FALSE(order.has_started());
  EXPECT_EQ(visit_all(order, {3, 1, 3}), (Predictions{none, none, none}));
  EXPECT_TRUE(order.has_started());
}

TEST(Order, StaticOrderIsExpectedFirst) { // two layers: forward [l0, l1], backward [l1, l0]
  Order forward, backward;
  forward.expect_first({0, 1});
  backward.expect_first({1, 0});
  EXPECT_EQ(forward.next(), 0);
  EXPECT_FALSE(forward.has_started());
  EXPECT_EQ(visit_all(forward, {0, 1}), (Predictions{1, none}));
  EXPECT_EQ(visit_all(backward, {1, 0}), (Predictions{0, none}));
}

TEST(Order, RecordsRepeats) { // spec 3.8: [a, b, a, c] with one module ahead: [b], [a], [c], []
  Order order;
  order.expect_first({0, 1, 2});
  EXPECT_EQ(visit_all(order, {0, 1, 0, 2}), (Predictions{1, 2, none, none}));
  order.finish();
  EXPECT_EQ(order.next(), 0);
  EXPECT_EQ(visit_all(order, {0, 1, 0, 2}), (Predictions{1, 0, 2, none}));
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1, 0, 2}), (Predictions{1, 0, 2, none}));
}

TEST(Order, RecordsModulesInARow) {
  Order order;
  visit_all(order, {0, 1, 1});
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1, 1}), (Predictions{1, 1, none}));
}

TEST(Order, DivergenceStopsPredictionsUntilTheNextPass) {
  Order order;
  order.expect_first({0, 1, 2, 3});
  EXPECT_EQ(visit_all(order, {0, 2, 2, 3}), (Predictions{1, none, none, none}));
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 2, 2, 3}), (Predictions{2, 2, 3, none}));
}

TEST(Order, DivergenceIsNotForgivenWhenTheOrderMeetsAgain) {
  Order order;
  order.expect_first({0, 1, 2, 3});
  EXPECT_EQ(visit_all(order, {0, 1, 3, 3}), (Predictions{1, 2, none, none}));
}

TEST(Order, AShorterPassIsRecordedAsItWas) {
  Order order;
  order.expect_first({0, 1, 2});
  EXPECT_EQ(visit_all(order, {0, 1}), (Predictions{1, 2}));
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1}), (Predictions{1, none}));
}

TEST(Order, ALongerPassIsRecordedAsItWas) {
  Order order;
  order.expect_first({0, 1});
  visit_all(order, {1, 0, 1});
  order.finish();
  EXPECT_EQ(visit_all(order, {1, 0, 1}), (Predictions{0, 1, none}));
}

TEST(Order, CancelKeepsTheRecordedOrder) {
  Order order;
  order.expect_first({0, 1, 2});
  visit_all(order, {0, 2});
  order.cancel();
  EXPECT_FALSE(order.has_started());
  EXPECT_EQ(order.next(), 0);
  EXPECT_EQ(visit_all(order, {0, 1, 2}), (Predictions{1, 2, none}));
}

TEST(Order,
     FinishOfAnEmptyPassKeepsTheRecordedOrder) { // a backward pass without a forward one, and the other way round
  Order order;
  order.expect_first({0, 1});
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1}), (Predictions{1, none}));
}

TEST(Order, HasStartedBetweenFirstVisitAndFinish) {
  Order order;
  order.visit(0);
  EXPECT_TRUE(order.has_started());
  order.finish();
  EXPECT_FALSE(order.has_started());
}

TEST(Order, ACompletePassStartsOver) { // the whole network twice in one micro-batch
  Order order;
  order.expect_first({0, 1});
  EXPECT_EQ(visit_all(order, {0, 1, 0, 1}), (Predictions{1, none, 1, none}));
  order.finish(); // both passes are recorded
  EXPECT_EQ(visit_all(order, {0, 1, 0, 1}), (Predictions{1, 0, 1, none}));
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1, 0, 1}), (Predictions{1, 0, 1, none}));
}

TEST(Order, ThirdPassesAndPartsOfPasses) {
  Order order;
  order.expect_first({0, 1});
  visit_all(order, {0, 1, 0, 1, 0});
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1, 0, 1, 0}), (Predictions{1, 0, 1, 0, none}));
}

TEST(Order, DivergenceInASecondPass) {
  Order order;
  order.expect_first({0, 1});
  EXPECT_EQ(visit_all(order, {0, 1, 1, 0}), (Predictions{1, none, none, none}));
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1, 1, 0}), (Predictions{1, 1, 0, none}));
}

TEST(Order, CancelForgetsCompletePasses) {
  Order order;
  order.expect_first({0, 1});
  visit_all(order, {0, 1, 0, 1, 0});
  order.cancel();
  visit_all(order, {0, 1});
  order.finish();
  EXPECT_EQ(visit_all(order, {0, 1}), (Predictions{1, none}));
}

std::vector<int> rest(std::span<const int> modules) { return {modules.begin(), modules.end()}; }

TEST(Order, UpcomingIsTheRestOfThePass) {
  Order order;
  order.expect_first({0, 1, 2});
  EXPECT_EQ(rest(order.upcoming()), (std::vector<int>{0, 1, 2}));
  order.visit(0);
  EXPECT_EQ(rest(order.upcoming()), (std::vector<int>{1, 2}));
  order.visit(2); // not as recorded
  EXPECT_TRUE(order.upcoming().empty());
  EXPECT_FALSE(order.follows());
}

TEST(Order, AfterAModuleThatDoesNotSayThatItRuns) {
  Order order;
  order.expect_first({0, 1, 0, 2});
  EXPECT_EQ(rest(order.after(0)), (std::vector<int>{1, 0, 2}));
  EXPECT_EQ(rest(order.after(2)), std::vector<int>{});
  EXPECT_EQ(rest(order.after(7)), std::vector<int>{});
  visit_all(order, {0, 1});
  EXPECT_EQ(rest(order.after(0)), (std::vector<int>{2})); // the second run of 0 is the next one
  EXPECT_EQ(rest(order.after(1)), (std::vector<int>{0, 2}));
  visit_all(order, {0, 2});
  EXPECT_EQ(rest(order.after(0)), (std::vector<int>{1, 0, 2}));
}

} // namespace
} // namespace ostraka::fsdp::test
