// SPDX-License-Identifier: Apache-2.0
// Hyperparameters of groups of parameters, numbers of steps, and what ranks must agree on.
#include "optim_test.hpp"
#include <ostraka/base/pattern.hpp>
#include <ostraka/optim/impl/groups.hpp>

#include <functional>
#include <limits>

namespace ostraka::optim::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();
const std::vector<layout::Shape> shapes{{5, 3}, {17}, {}, {0, 4}, {2, 2, 3}, {11}};

using Values = std::function<Hyperparameters(int state, int tensor)>;

// Three steps of both optimizers on all placements, with groups set by `set`, against scalar arithmetic.
void expect_groups(const std::function<void(Optimizer&)>& set, double decay, const Values& values) {
  const double rate = 0.1;
  for (const auto& [mesh, placements] : all_placements())
    for (const bool is_adamw : {true, false}) {
      SCOPED_TRACE(layout::to_string(placements) + (is_adamw ? " adamw" : " sgd"));
      std::vector<NamedState> states;
      for (const char* name : {"first", "second"}) {
        states.push_back(make_state(mesh, shapes, DType::f64, placements, name, std::make_shared<Calls>()));
        fill(states.back().main_weight, weight_value);
      }
      const AdamWConfig adamw{.learning_rate = rate, .epsilon = 1e-3, .weight_decay = decay};
      const SgdConfig sgd{.learning_rate = rate, .momentum = 0.5, .weight_decay = decay};
      const auto optimizer = is_adamw ? make_adamw(states, adamw) : make_sgd(states, sgd);
      set(*optimizer);
      for (int step = 1; step <= 3; ++step) {
        for (const NamedState& state : states)
          fill(state.main_gradient, [&](int t, std::int64_t i) { return gradient_value(t, i, step); });
        optimizer->step();
      }
      for (int s = 0; s < 2; ++s) {
        for_elements(states[s].main_weight, [&](double found, int t, std::int64_t i) {
          const Hyperparameters own = values(s, t);
          AdamWConfig own_adamw = adamw;
          SgdConfig own_sgd = sgd;
          own_adamw.weight_decay = own_sgd.weight_decay = own.weight_decay;
          Element plain{weight_value(t, i)};
          for (int step = 1; step <= 3; ++step)
            if (is_adamw)
              plain.adamw(own_adamw, rate * own.learning_rate_factor, gradient_value(t, i, step), step);
            else
              plain.sgd(own_sgd, rate * own.learning_rate_factor, gradient_value(t, i, step));
          EXPECT_NEAR(found, static_cast<double>(plain.w), 1e-14) << s << ", tensor " << t << ", element " << i;
        });
        expect_zero_padding(states[s].main_weight, "main weight");
      }
    }
}

TEST(Groups, None) {
  expect_groups([](Optimizer&) {}, 0.2, [](int, int) { return Hyperparameters{1, 0.2}; });
}

TEST(Groups, NoDecayOfVectors) {
  expect_groups([](Optimizer& o) { o.set_group("*", {.weight_decay = 0, .max_dims = 1}); }, 0.2,
                [](int, int t) {
                  return Hyperparameters{1, t == 1 || t == 2 || t == 5 ? 0 : 0.2};
                });
}

TEST(Groups, OneModuleSlower) {
  expect_groups([](Optimizer& o) { o.set_group("second.*", {.learning_rate_factor = 0.25}); }, 0.2,
                [](int s, int) {
                  return Hyperparameters{s == 1 ? 0.25 : 1, 0.2};
                });
}

TEST(Groups, OneTensorFrozen) {
  expect_groups([](Optimizer& o) { o.set_group("first.p1", {.learning_rate_factor = 0}); }, 0.2,
                [](int s, int t) {
                  return Hyperparameters{s == 0 && t == 1 ? 0.0 : 1.0, 0.2};
                });
}

// The later call wins, option by option.
TEST(Groups, SeveralCalls) {
  const auto set = [](Optimizer& o) {
    o.set_group("first.*", {.learning_rate_factor = 0.5, .weight_decay = 0.7});
    o.set_group("*.p?", {.weight_decay = 0.3, .max_dims = 0});
    o.set_group("*p5", {.learning_rate_factor = 3});
    o.set_group("*", {});
  };
  expect_groups(set, 0, [](int s, int t) {
    return Hyperparameters{t == 5 ? 3.0 : s == 0 ? 0.5 : 1.0, t == 2 ? 0.3 : s == 0 ? 0.7 : 0.0};
  });
}

std::vector<NamedState> one_state(const std::string& name = "m", int tensors = 1) {
  const std::vector<layout::Shape> of(static_cast<std::size_t>(tensors), layout::Shape{4});
  return {make_state(make_mesh(), of, DType::f64, {layout::shard()}, name, std::make_shared<Calls>())};
}

TEST(GroupErrors, AnUnknownNameListsTheKnownOnes) {
  const auto few = make_sgd(one_state("layer", 2), {});
  expect_error(Status::INVALID_ARGUMENT, [&] { few->set_group("layer.p3", {}); },
               {"'layer.p3'", "there are 'layer.p0', 'layer.p1'"});
  const auto many = make_sgd(one_state("layer", 25), {});
  expect_error(Status::INVALID_ARGUMENT, [&] { many->set_group("x*", {}); }, {"'layer.p19' and 5 more"});
  few->set_group("*", {.weight_decay = 0, .max_dims = 0}); // a network without such tensors is no mistake
}

TEST(GroupErrors, BadOptionsChangeNothing) {
  const auto states = one_state();
  fill(states[0].main_weight, weight_value);
  const auto sgd = make_sgd(states, {.learning_rate = 0.5, .weight_decay = 0.5});
  for (const double bad : {-1.0, nan, inf}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { sgd->set_group("*", {.learning_rate_factor = bad}); }, {"factor"});
    expect_error(Status::INVALID_ARGUMENT, [&] { sgd->set_group("*", {.weight_decay = bad}); }, {"weight_decay"});
  }
  expect_error(Status::INVALID_ARGUMENT, [&] { sgd->set_group("*", {.weight_decay = 0, .max_dims = -1}); },
               {"max_dims"});
  sgd->step();
  for_elements(states[0].main_weight,
               [](double found, int t, std::int64_t i) { EXPECT_EQ(found, 0.75 * weight_value(t, i)); });
}

TEST(Steps, CanBeSet) {
  const auto states = one_state();
  const AdamWConfig config{.learning_rate = 0.1};
  const auto adamw = make_adamw(states, config);
  expect_error(Status::INVALID_ARGUMENT, [&] { adamw->set_steps(-1); }, {"steps", "-1"});
  EXPECT_EQ(adamw->steps(), 0);
  adamw->set_steps(9);
  EXPECT_EQ(adamw->steps(), 9);
  fill(states[0].main_weight, weight_value);
  fill(states[0].main_gradient, [](int t, std::int64_t i) { return gradient_value(t, i, 1); });
  adamw->step();
  EXPECT_EQ(adamw->steps(), 10);
  for_elements(states[0].main_weight, [&](double found, int t, std::int64_t i) {
    Element plain{weight_value(t, i)};
    plain.adamw(config, 0.1, gradient_value(t, i, 1), 10);
    EXPECT_NEAR(found, static_cast<double>(plain.w), 1e-15);
  });
}

// A step that no backward pass came before is a mistake; a module that had nothing to do in between is none.
TEST(Steps, WithoutANewGradient) {
  std::vector<NamedState> states;
  std::vector<std::int64_t> versions{1, 1};
  for (int s = 0; s < 2; ++s) {
    states.push_back(one_state("m" + std::to_string(s))[0]);
    states.back().gradient_version = [&versions, s] { return versions[static_cast<std::size_t>(s)]; };
    fill(states.back().main_gradient, [](int, std::int64_t) { return 1.0; });
  }
  const auto sgd = make_sgd(states, {.learning_rate = 1});
  sgd->step();
  expect_error(Status::INVALID_STATE, [&] { sgd->step(); }, {"after 1 steps", "new gradient", "backward"});
  EXPECT_EQ(sgd->steps(), 1);
  for (const NamedState& state : states)
    for_elements(state.main_weight, [](double found, int, std::int64_t) { EXPECT_EQ(found, -1); });
  versions[1] = 2;
  sgd->step();
  EXPECT_EQ(sgd->steps(), 2);
  make_sgd(states, {})->step(); // another optimizer has not used it
}

TEST(Agreement, RanksWithOtherHyperparameters) {
  if (ranks == 1)
    return;
  const auto expect_refused = [](const std::function<std::unique_ptr<Optimizer>(std::vector<NamedState>)>& make) {
    const auto states = one_state();
    fill(states[0].main_weight, weight_value);
    const auto optimizer = make(states);
    expect_error(Status::RANKS_DISAGREE, [&] { optimizer->step(); }, {"optimizer step", "learning rate"});
    for_elements(states[0].main_weight,
                 [](double found, int t, std::int64_t i) { EXPECT_EQ(found, weight_value(t, i)); });
  };
  const double differs = rank == ranks - 1 ? 0.5 : 0.25;
  expect_refused([=](auto states) { return make_sgd(std::move(states), {.learning_rate = differs}); });
  expect_refused([=](auto states) { return make_sgd(std::move(states), {.momentum = differs}); });
  expect_refused([=](auto states) { return make_sgd(std::move(states), {.weight_decay = differs}); });
  expect_refused([=](auto states) { return make_adamw(std::move(states), {.beta1 = differs}); });
  expect_refused([=](auto states) { return make_adamw(std::move(states), {.beta2 = differs}); });
  expect_refused([=](auto states) { return make_adamw(std::move(states), {.epsilon = differs}); });
  expect_refused([=](auto states) { // a run that is continued agrees, too
    auto result = make_adamw(std::move(states), {.learning_rate = differs});
    result->set_steps(7);
    return result;
  });
  expect_refused([=](auto states) {
    auto result = make_adamw(std::move(states), {});
    result->set_group("*", {.learning_rate_factor = differs});
    return result;
  });
}

} // namespace
} // namespace ostraka::optim::test
