// SPDX-License-Identifier: Apache-2.0
// Spec 3.8: which modules are gathered ahead; hooks as recorded, and what ranks compare of them.
#include <ostraka/fsdp/schedule.hpp>

#include <gtest/gtest.h>

namespace ostraka::fsdp::test {
namespace {

using enum Hook;
using Budget = std::optional<std::int64_t>;

/// What is gathered ahead at each module of a recorded pass.
std::vector<std::vector<int>> ahead(const std::vector<int>& pass, const std::vector<std::int64_t>& elements,
                                    Budget budget) {
  std::vector<std::vector<int>> found;
  for (std::size_t i = 1; i <= pass.size(); ++i) {
    const auto upcoming = std::span(pass).subspan(i);
    const auto next = upcoming.first(static_cast<std::size_t>(modules_ahead(upcoming, elements, budget)));
    found.emplace_back(next.begin(), next.end());
  }
  return found;
}

constexpr int a = 0, b = 1, c = 2;

TEST(Prefetch, ExamplesOfTheSpecification) { // [a, b, a, c], one element each
  using Found = std::vector<std::vector<int>>;
  const std::vector<std::int64_t> ones{1, 1, 1};
  EXPECT_EQ(ahead({a, b, a, c}, ones, {}), (Found{{b}, {a}, {c}, {}}));
  EXPECT_EQ(ahead({a, b, a, c}, ones, 0), (Found{{}, {}, {}, {}}));
  EXPECT_EQ(ahead({a, b, a, c}, ones, 2), (Found{{b, a}, {a, c}, {c}, {}}));
}

TEST(Prefetch, WholeModulesUntilTheBudgetIsReached) {
  using Found = std::vector<std::vector<int>>;
  const std::vector<std::int64_t> elements{10, 1, 5};
  EXPECT_EQ(ahead({a, b, c}, elements, 1), (Found{{b}, {c}, {}}));
  EXPECT_EQ(ahead({a, b, c}, elements, 2), (Found{{b, c}, {c}, {}})); // overshoots
  EXPECT_EQ(ahead({b, a, c}, elements, 9), (Found{{a}, {c}, {}}));
  EXPECT_EQ(ahead({b, a, c}, elements, 11), (Found{{a, c}, {c}, {}}));
  EXPECT_EQ(ahead({b, a, c}, {0, 0, 0}, 1), (Found{{a, c}, {c}, {}})); // nothing costs nothing
}

TEST(Pass, FollowsHooksAndGathers) {
  Pass pass(pre_forward);
  pass.expect_first({{a, pre_forward}, {b, pre_forward}, {b, post_forward}, {a, post_forward}});
  EXPECT_EQ(pass.next(), (Event{a, pre_forward}));
  pass.visit({a, pre_forward});
  EXPECT_EQ(pass.next(), (Event{b, pre_forward}));
  pass.visit({b, pre_forward});
  pass.visit({b, post_forward});
  EXPECT_EQ(pass.next(), (Event{a, post_forward}));
  pass.visit({a, post_forward});
  EXPECT_FALSE(pass.next().has_value());
}

TEST(Pass, GathersAreKnownWhereModulesDoNotNestAsRecorded) {
  Pass pass(pre_backward);
  pass.expect_first({{a, pre_backward}, {b, pre_backward}, {b, post_backward}, {a, post_backward}});
  pass.visit({a, pre_backward});
  pass.visit({a, post_backward});
  EXPECT_FALSE(pass.follows());
  EXPECT_EQ(pass.next(), (Event{b, pre_backward})); // the begin of its use
  pass.visit({b, pre_backward});
  EXPECT_FALSE(pass.next().has_value());
  pass.visit({b, post_backward});
  pass.finish();
  pass.visit({a, pre_backward});
  EXPECT_EQ(pass.next(), (Event{a, post_backward}));
}

TEST(Pass, RecomputationsAreNoGathersOfTheirPass) {
  Pass pass(pre_backward);
  for (const Event event : {Event{b, pre_forward}, {b, post_forward}, {b, pre_backward}, {b, post_backward}})
    pass.visit(event);
  pass.finish();
  EXPECT_EQ(pass.next(), (Event{b, pre_forward}));
  EXPECT_EQ(pass.gathers().next(), b);
  pass.visit({b, pre_forward});
  EXPECT_EQ(pass.gathers().next(), b);
}

TEST(Journal, TellsModulesHooksAndOrdersApart) {
  const auto hash = [](const std::vector<Event>& events) {
    Journal journal;
    journal.add({7, unshard}); // forgotten
    journal.clear();
    for (const Event& event : events)
      journal.add(event);
    return journal.hash();
  };
  const auto usual = hash({{a, pre_forward}, {b, pre_forward}});
  EXPECT_EQ(usual, hash({{a, pre_forward}, {b, pre_forward}}));
  EXPECT_NE(usual, hash({{b, pre_forward}, {a, pre_forward}}));
  EXPECT_NE(usual, hash({{a, pre_forward}, {b, pre_backward}}));
  EXPECT_NE(usual, hash({{a, pre_forward}}));
}

TEST(Journal, NumbersOfEvents) {
  for (const Event event : {Event{0, pre_forward}, {5, reduce_gradients}, {1000000, post_backward}})
    EXPECT_EQ(to_event(to_number(event)), event);
}

} // namespace
} // namespace ostraka::fsdp::test
