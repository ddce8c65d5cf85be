// SPDX-License-Identifier: Apache-2.0
// Updates of AdamW and SGD against plain scalar arithmetic.
#include "optim_test.hpp"

#include <functional>
#include <random>

namespace ostraka::optim::test {
namespace {

using Shapes = std::vector<layout::Shape>;
const Shapes shapes{{5, 3}, {}, {0, 4}, {17}, {2, 2, 3}};
constexpr int steps = 10;

using Make = std::function<std::unique_ptr<Optimizer>(std::vector<NamedState>)>;
using Update = std::function<void(Element&, long double rate, long double gradient, int step)>;

// Ten steps of both, with a new learning rate from step 6 on. The error is relative to the largest weight so far: a
// weight may pass near zero.
void expect_updates(const Make& make, const Update& update, double rate, DType dtype, double tolerance,
                    const Shapes& of = shapes) {
  for (const auto& [mesh, placements] : all_placements()) {
    SCOPED_TRACE(layout::to_string(placements));
    const auto calls = std::make_shared<Calls>();
    const NamedState state = make_state(mesh, of, dtype, placements, "m", calls);
    fill(state.main_weight, weight_value);
    const auto optimizer = make({state});
    for (int t = 1; t <= steps; ++t) {
      if (t == 6)
        optimizer->set_learning_rate(rate / 3);
      fill(state.main_gradient, [&](int tensor, std::int64_t i) { return gradient_value(tensor, i, t); });
      optimizer->step();
    }
    EXPECT_EQ(optimizer->steps(), steps);
    EXPECT_EQ(calls->refresh, steps);
    EXPECT_EQ(calls->check_update, steps);
    EXPECT_EQ(calls->before_update, steps);
    for_elements(state.main_weight, [&](double found, int tensor, std::int64_t i) {
      Element plain{stored(weight_value(tensor, i), dtype)};
      long double size = std::abs(plain.w);
      for (int t = 1; t <= steps; ++t) {
        update(plain, t < 6 ? rate : rate / 3, stored(gradient_value(tensor, i, t), dtype), t);
        size = std::max(size, std::abs(plain.w));
      }
      EXPECT_NEAR(found, static_cast<double>(plain.w), tolerance * static_cast<double>(size))
          << "tensor " << tensor << ", element " << i;
    });
    for_elements(state.main_gradient, [&](double found, int tensor, std::int64_t i) { // gradients stay
      EXPECT_EQ(found, stored(gradient_value(tensor, i, steps), dtype));
    });
    expect_zero_padding(state.main_weight, "main weight");
  }
}

void expect_adamw(const AdamWConfig& config, const Shapes& of = shapes) {
  const Make make = [&](std::vector<NamedState> states) { return make_adamw(std::move(states), config); };
  const Update update = [&](Element& e, long double rate, long double g, int t) { e.adamw(config, rate, g, t); };
  expect_updates(make, update, config.learning_rate, DType::f64, 1e-14, of);
  expect_updates(make, update, config.learning_rate, DType::f32, 4e-6,
                 of); // about 3 roundings of 6e-8 in each of 10 steps
}

void expect_sgd(const SgdConfig& config, const Shapes& of = shapes) {
  const Make make = [&](std::vector<NamedState> states) { return make_sgd(std::move(states), config); };
  const Update update = [&](Element& e, long double rate, long double g, int) { e.sgd(config, rate, g); };
  expect_updates(make, update, config.learning_rate, DType::f64, 1e-14, of);
  expect_updates(make, update, config.learning_rate, DType::f32, 4e-6, of);
}

TEST(AdamW, Defaults) { expect_adamw({}); }
TEST(AdamW, LargeStepsAndDecay) {
  expect_adamw({.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = 0.3});
}
TEST(AdamW, NoDecay) { expect_adamw({.learning_rate = 0.01, .weight_decay = 0}); }
TEST(AdamW, NoMomentum) { expect_adamw({.learning_rate = 0.01, .beta1 = 0, .epsilon = 1e-3}); }
TEST(AdamW, NoMemoryAtAll) { expect_adamw({.learning_rate = 0.01, .beta1 = 0, .beta2 = 0, .epsilon = 1e-3}); }
TEST(AdamW, LargeEpsilon) { expect_adamw({.learning_rate = 0.1, .epsilon = 1}); }
TEST(AdamW, RateZeroChangesNothing) { expect_adamw({.learning_rate = 0, .weight_decay = 0.5}); }

TEST(Sgd, Plain) { expect_sgd({.learning_rate = 0.1}); }
TEST(Sgd, Momentum) { expect_sgd({.learning_rate = 0.1, .momentum = 0.9}); }
TEST(Sgd, WeightDecay) { expect_sgd({.learning_rate = 0.1, .weight_decay = 0.2}); }
TEST(Sgd, MomentumAndWeightDecay) { expect_sgd({.learning_rate = 0.05, .momentum = 0.5, .weight_decay = 0.1}); }

TEST(Optimizer, RandomShapes) {
  std::mt19937_64 numbers(fresh_seed("RandomShapes"));
  for (int round = 0; round < 4; ++round) {
    Shapes of(1 + numbers() % 4);
    for (layout::Shape& shape : of)
      for (std::uint64_t d = numbers() % 4; d > 0; --d)
        shape.push_back(static_cast<std::int64_t>(numbers() % 7));
    expect_adamw({.learning_rate = 0.05, .beta1 = 0.7, .epsilon = 1e-5, .weight_decay = 0.05}, of);
    expect_sgd({.learning_rate = 0.05, .momentum = 0.8, .weight_decay = 0.05}, of);
  }
}

// What the update is, each operation rounded on its own, which `volatile` asks for: the widest vectors of a machine may
// not multiply and add in one go. 1000 elements have whole vectors and a rest.
TEST(AdamW, BitsDoNotDependOnTheProcessor) {
  const auto mesh = make_mesh();
  const AdamWConfig config{.learning_rate = 0.01, .beta1 = 0.9, .beta2 = 0.99, .epsilon = 1e-6, .weight_decay = 0.1};
  const NamedState state = make_state(mesh, {{1000}}, DType::f32, {layout::shard()}, "m", std::make_shared<Calls>());
  fill(state.main_weight, weight_value);
  const auto optimizer = make_adamw({state}, config);
  for (int t = 1; t <= 3; ++t) {
    fill(state.main_gradient, [&](int tensor, std::int64_t i) { return gradient_value(tensor, i, t); });
    optimizer->step();
  }
  for_elements(state.main_weight, [&](double found, int tensor, std::int64_t i) {
    volatile float w = static_cast<float>(weight_value(tensor, i)), m = 0, v = 0;
    for (int t = 1; t <= 3; ++t) {
      const auto g = static_cast<float>(gradient_value(tensor, i, t));
      const volatile float old_mean = static_cast<float>(config.beta1) * m,
                           new_mean = static_cast<float>(1 - config.beta1) * g,
                           old_square = static_cast<float>(config.beta2) * v,
                           part = static_cast<float>(1 - config.beta2) * g, new_square = part * g;
      m = old_mean + new_mean;
      v = old_square + new_square;
      const volatile float root =
          std::sqrt(v) / std::sqrt(static_cast<float>(1 - std::pow(config.beta2, static_cast<double>(t))));
      const volatile float sum = root + static_cast<float>(config.epsilon);
      const volatile float denominator = static_cast<float>(1 - std::pow(config.beta1, static_cast<double>(t))) * sum;
      const volatile float quotient = m / denominator, step = static_cast<float>(config.learning_rate) * quotient,
                           kept = static_cast<float>(1 - config.learning_rate * config.weight_decay) * w;
      w = kept - step;
    }
    EXPECT_EQ(found, static_cast<double>(w)) << "element " << i;
  });
}

// Case 16: counted twice, the step would be 0.7441.
TEST(AdamW, Case16FirstStepIsExactlyTheRate) {
  const auto mesh = make_mesh();
  for (const DType dtype : {DType::f64, DType::f32}) {
    const NamedState state = make_state(mesh, shapes, dtype, {layout::shard()}, "m", std::make_shared<Calls>());
    fill(state.main_weight, [](int, std::int64_t) { return 3.0; });
    fill(state.main_gradient, [](int, std::int64_t) { return 1.0; });
    const auto optimizer =
        make_adamw({state}, {.learning_rate = 1, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 0, .weight_decay = 0});
    optimizer->step();
    for_elements(state.main_weight, [&](double found, int, std::int64_t) { EXPECT_EQ(found, 2.0) << name(dtype); });
  }
}

TEST(Optimizer, PaddingStaysZeroAlsoWithoutEpsilon) {
  const auto mesh = make_mesh();
  for (const DType dtype : {DType::f64, DType::f32})
    for (const bool is_adamw : {true, false}) {
      NamedState state = make_state(mesh, shapes, dtype, {layout::shard()}, "m", std::make_shared<Calls>());
      fill(state.main_weight, weight_value);
      const auto optimizer = is_adamw ? make_adamw({state}, {.learning_rate = 0.1, .epsilon = 0, .weight_decay = 0.1})
                                      : make_sgd({state}, {.learning_rate = 0.1, .momentum = 0.9, .weight_decay = 0.1});
      for (int t = 1; t <= steps; ++t) {
        fill(state.main_gradient, [&](int tensor, std::int64_t i) { return gradient_value(tensor, i, t); });
        optimizer->step();
      }
      expect_zero_padding(state.main_weight, is_adamw ? "adamw" : "sgd");
      for_elements(state.main_weight,
                   [&](double found, int, std::int64_t) { EXPECT_TRUE(std::isfinite(found)) << name(dtype); });
    }
}

// A weight whose gradient is 0 in all steps does not move, whatever epsilon is.
TEST(AdamW, ZeroGradientsWithoutEpsilon) {
  const auto mesh = make_mesh();
  const NamedState state = make_state(mesh, {{9}}, DType::f64, {layout::shard()}, "m", std::make_shared<Calls>());
  fill(state.main_weight, weight_value);
  const auto optimizer = make_adamw({state}, {.learning_rate = 0.1, .epsilon = 0, .weight_decay = 0});
  for (int t = 0; t < 3; ++t)
    optimizer->step();
  for_elements(state.main_weight, [&](double found, int t, std::int64_t i) { EXPECT_EQ(found, weight_value(t, i)); });
}

TEST(Optimizer, StatesOfSeveralTypesAndPlacements) {
  const auto mesh = make_mesh();
  const auto a = std::make_shared<Calls>(), b = std::make_shared<Calls>();
  const NamedState wide = make_state(mesh, {{7}}, DType::f64, {layout::shard()}, "a", a);
  const NamedState narrow = make_state(mesh, {{3, 3}, {2}}, DType::f32, {layout::replicate()}, "b", b);
  for (const NamedState& state : {wide, narrow}) {
    fill(state.main_weight, weight_value);
    fill(state.main_gradient, [](int t, std::int64_t i) { return gradient_value(t, i, 1); });
  }
  const SgdConfig config{.learning_rate = 0.5, .momentum = 0.5};
  const auto optimizer = make_sgd({wide, narrow}, config);
  optimizer->step();
  optimizer->step();
  for (const NamedState& state : {wide, narrow})
    for_elements(state.main_weight, [&](double found, int t, std::int64_t i) {
      Element plain{weight_value(t, i)};
      for (int s = 0; s < 2; ++s)
        plain.sgd(config, 0.5L, gradient_value(t, i, 1));
      EXPECT_NEAR(found, static_cast<double>(plain.w), state.main_weight.dtype() == DType::f64 ? 1e-15 : 1e-6);
    });
  EXPECT_EQ(a->refresh, 2);
  EXPECT_EQ(b->refresh, 2);
}

} // namespace
} // namespace ostraka::optim::test
