// SPDX-License-Identifier: Apache-2.0
// A rank that cannot go on with a step: all ranks get its error, and training goes on.
#include "network.hpp"

namespace ostraka::fsdp::test {
namespace {

/// Visited in another order than added; module 1 twice.
Options make_options(Recipe recipe, int gradient_slots) {
  Options options;
  options.net = mlp({3, 4, 4, 2});
  options.net.visits = {0, 1, 1, 2};
  options.registration = {2, 0, 1};
  options.config = make_config(recipe);
  options.config.gradient_slots = gradient_slots;
  return options;
}

/// As many modules, visited as added: what the first step expects.
Options make_static_options(Recipe recipe) {
  Options options;
  options.net = mlp({3, 4, 4, 2});
  options.config = make_config(recipe);
  return options;
}

void fail_at(Training<double>& t, int failing, int stop, const std::string& what) {
  SCOPED_TRACE(what);
  t.context().zero_grad();
  const std::string message = "diverged at event " + std::to_string(stop);
  t.pass(0, rank == failing ? stop : -1);
  if (rank == failing) {
    EXPECT_FALSE(t.context().has_failed_step());
    t.context().fail_step(message);
    t.context().fail_step("a later cause is not the first");
    EXPECT_TRUE(t.context().has_failed_step());
  }
  expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); },
               {message, "rank " + std::to_string(failing)});
  EXPECT_FALSE(t.context().has_failed_step());
  EXPECT_EQ(t.context().memory().transient, 0);
  expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"gradient"});
}

TEST(FailStep, AnywhereInTheFirstStep) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int failing : {0, ranks - 1}) {
      int events = 1;
      for (int stop = 0; stop < events; ++stop) {
        Training<double> t(mesh, make_static_options(recipe));
        events = t.events();
        const std::string what =
            std::string(text(recipe)) + ", rank " + std::to_string(failing) + ", event " + std::to_string(stop);
        fail_at(t, failing, stop, what);
        t.expect_usable(what);
      }
      if (ranks == 1)
        break;
    }
}

TEST(FailStep, AnywhereInALaterStep) { // follows the recorded order, with repeats
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int slots : {1, 2})
      for (const int failing : {0, ranks - 1}) {
        Training<double> t(mesh, make_options(recipe, slots));
        t.expect_usable("nothing");
        for (int stop = 0; stop < t.events(); ++stop) {
          const std::string what =
              std::string(text(recipe)) + ", rank " + std::to_string(failing) + ", event " + std::to_string(stop);
          fail_at(t, failing, stop, what);
          t.expect_usable(what);
        }
        if (ranks == 1)
          break;
      }
}

TEST(FailStep, TwoFailuresInARow) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe, 2));
    t.expect_usable("nothing");
    for (int stop = 0; stop < t.events(); stop += 3)
      fail_at(t, stop % ranks, stop, "event " + std::to_string(stop));
    t.expect_usable("many failures");
  }
}

TEST(FailStep, ALaterMicroBatchDropsAllOfTheStep) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Options options = make_options(recipe, 2);
    options.micro_batches = 3;
    Training<double> t(mesh, options);
    t.expect_usable("nothing");
    for (const int stop : {0, 9, t.events() - 1})
      for (const bool is_last : {false, true}) {
        t.context().zero_grad();
        t.context().set_last_microbatch(false);
        t.pass(0);
        t.context().finish_backward();
        t.context().set_last_microbatch(is_last);
        if (!t.pass(1, rank == 0 ? stop : -1))
          t.context().fail_step("out of range");
        expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); }, {"out of range", "rank 0"});
        expect_error(Status::INVALID_STATE, [&] { t.optimizer().step(); }, {"gradient"});
        // Nothing of the first micro-batch is left even without zero_grad.
        for (int k = 0; k < 3; ++k) {
          t.context().set_last_microbatch(k == 2);
          t.pass(k);
          t.context().finish_backward();
        }
        t.optimizer().step();
        t.plain_step();
        t.expect_equal(1e-12);
      }
  }
}

TEST(FailStep, OfSeveralRanksTheLowestIsReported) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe, 2));
    t.expect_usable("nothing");
    t.context().zero_grad();
    const bool fails = rank >= ranks / 2;
    t.pass(0, fails ? 3 * rank : -1);
    if (fails)
      t.context().fail_step("from rank " + std::to_string(rank));
    const std::string first = std::to_string(ranks / 2);
    expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); }, {"rank " + first, "from rank " + first});
    t.expect_usable("failures of several ranks");
  }
}

TEST(FailStep, AllRanksBeforeAnything) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_static_options(recipe));
    t.context().fail_step("");
    expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); }, {"the caller reported a failure"});
    t.expect_usable("a failure of all ranks");
  }
}

TEST(FailStep, TheRankMayGoOnWithItsHooks) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Training<double> t(mesh, make_options(recipe, 2));
    t.context().zero_grad();
    if (rank == ranks - 1)
      t.context().fail_step("not a number");
    t.pass(0);
    expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); }, {"not a number"});
    t.expect_usable("a failure with all hooks run");
  }
}

TEST(FailStep, KeepsTheOrderOfTheLastGoodStep) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes) {
    Options options = make_static_options(recipe);
    options.net = mlp({4, 4, 4, 4});
    Training<double> t(mesh, options);
    t.expect_usable("nothing");
    t.net().visits = {1, 0, 2}; // all ranks run all hooks of another order, but the step fails
    t.context().zero_grad();
    if (rank == 0)
      t.context().fail_step("not a number");
    t.pass(0);
    expect_error(Status::USER_FAILURE, [&] { t.context().finish_backward(); }, {"not a number"});
    t.net().visits = {0, 1, 2};
    fail_at(t, 0, 1, "after a failed step in another order");
    t.expect_usable("a failed step in another order");
  }
}

TEST(FailStep, AfterForwardPassesAlone) { // any number of them does not change what the next step looks like
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int visits : {3, 2, 6}) {
      Training<double> t(mesh, make_static_options(recipe));
      t.expect_usable("nothing");
      for (int v = 0; v < visits; ++v) {
        t.module(v % 3).pre_forward();
        t.module(v % 3).post_forward();
      }
      t.context().finish_backward();
      fail_at(t, 0, 1, "after forward passes alone");
      t.expect_usable("forward passes alone");
    }
}

// The whole network twice in one micro-batch, then twice backward.
TEST(FailStep, WithTwoForwardPassesInAMicroBatch) {
  const auto mesh = make_mesh();
  for (const Recipe recipe : all_recipes)
    for (const int failing : {0, ranks - 1}) {
      Options options;
      options.net = mlp({3, 3, 3});
      options.net.visits = {0, 1, 0, 1};
      options.config = make_config(recipe);
      Training<double> t(mesh, options);
      t.expect_usable("nothing");
      for (int stop = 0; stop < t.events(); ++stop) {
        const std::string what = "event " + std::to_string(stop);
        fail_at(t, failing, stop, what);
        t.expect_usable(what);
        if (testing::Test::HasFailure())
          return; // the context is lost
      }
    }
}

} // namespace
} // namespace ostraka::fsdp::test
