// SPDX-License-Identifier: Apache-2.0
// Model weights of another type that the update writes: bit for bit what a cast of the main weights gives.
#include "optim_test.hpp"

#include <limits>

namespace ostraka::optim::test {
namespace {

void expect_cast_bits(const NamedState& state) {
  const DBuffer expected = state.main_weight.cast(state.model_weight.dtype());
  EXPECT_EQ(bytes_at(state.model_weight.data(), expected.bytes()), bytes_at(expected.data(), expected.bytes()));
}

// Around the ends of blocks, and more of them than one.
const std::vector<layout::Shape> shapes{{255}, {1}, {256}, {257, 3}, {1000}};

// Numbers of every size, ties between 16-bit numbers, infinities and NaN.
double any_weight(int t, std::int64_t i) {
  switch (i % 7) {
  case 0:
    return 1 + 0x1p-8 * static_cast<double>(i % 5); // ties of bf16
  case 1:
    return 1 + 0x1p-11 * static_cast<double>(i % 9); // ties of f16
  case 2:
    return (i % 2 == 0 ? 1 : -1) * std::exp2(static_cast<double>(i % 300) - 150);
  case 3:
    return i % 50 == 3 ? std::numeric_limits<double>::infinity() : 65519.0;
  case 4:
    return i % 40 == 4 ? std::numeric_limits<double>::quiet_NaN() : -0.0;
  default:
    return weight_value(t, i);
  }
}

TEST(ModelWeight, IsTheCastOfTheMainWeight) {
  for (const auto& [mesh, placements] : all_placements())
    for (const DType main : {DType::f64, DType::f32})
      for (const DType model : floating_types)
        for (const int which : {0, 1, 2}) { // plain, momentum, adamw
          SCOPED_TRACE(layout::to_string(placements) + " " + name(main) + " as " + name(model));
          const auto calls = std::make_shared<Calls>();
          NamedState state = make_state(mesh, shapes, main, placements, "m", calls);
          state.model_weight = DBuffer(mesh, placements, state.main_weight.layout(), model);
          fill(state.main_weight, any_weight);
          const auto optimizer = which == 2 ? make_adamw({state}, {.learning_rate = 0.1})
                                            : make_sgd({state}, {.learning_rate = 0.1, .momentum = 0.5 * which});
          for (int step = 1; step <= 2; ++step) {
            fill(state.main_gradient,
                 [&](int t, std::int64_t i) { return i % 3 == 0 ? 0 : gradient_value(t, i, step); });
            optimizer->step();
            expect_cast_bits(state);
            EXPECT_EQ(calls->publish, step);
          }
          EXPECT_EQ(calls->refresh, 0);
          expect_zero_padding(state.model_weight, "model weight");
        }
}

// Runs with other hyperparameters start and end anywhere.
TEST(ModelWeight, WithGroups) {
  for (const auto& [mesh, placements] : all_placements()) {
    NamedState state = make_state(mesh, shapes, DType::f32, placements, "m", std::make_shared<Calls>());
    state.model_weight = DBuffer(mesh, placements, state.main_weight.layout(), DType::bf16);
    fill(state.main_weight, weight_value);
    fill(state.main_gradient, [](int t, std::int64_t i) { return gradient_value(t, i, 1); });
    const auto adamw = make_adamw({state}, {.learning_rate = 0.1});
    adamw->set_group("m.p1", {.learning_rate_factor = 0.5});
    adamw->set_group("m.p3", {.weight_decay = 0.5});
    adamw->step();
    expect_cast_bits(state);
  }
}

// Case 16, from zero: no rounding hides a wrong digit.
TEST(AdamW, FirstStepIsExactlyTheRateFromZero) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const double beta1 : {0.9, 0.8, 0.3, 0.0})
      for (const double beta2 : {0.999, 0.95, 0.7, 0.0}) {
        const NamedState state =
            make_state(make_mesh(), {{300}}, dtype, {layout::shard()}, "m", std::make_shared<Calls>());
        fill(state.main_gradient, [](int, std::int64_t) { return 1.0; });
        make_adamw({state}, {.learning_rate = 1, .beta1 = beta1, .beta2 = beta2, .epsilon = 0, .weight_decay = 0})
            ->step();
        for_elements(state.main_weight, [&](double found, int, std::int64_t) {
          EXPECT_EQ(found, -1.0) << name(dtype) << " " << beta1 << " " << beta2;
        });
      }
}

} // namespace
} // namespace ostraka::optim::test
