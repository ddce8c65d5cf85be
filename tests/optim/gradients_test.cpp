// SPDX-License-Identifier: Apache-2.0
// Clipping, scaling and checks of gradients.
#include "optim_test.hpp"

#include <limits>

namespace ostraka::optim::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();
const std::vector<layout::Shape> shapes{{5, 3}, {17}};

double first_value(int t, std::int64_t i) { return gradient_value(t, i, 1); }

// Two states, the first one replicated over the outer axis where there is one, both with gradients of first_value.
std::vector<NamedState> make_states(DType dtype = DType::f64) {
  const auto mesh = make_mesh(ranks % 2 == 0 ? std::vector<int>{2, ranks / 2} : std::vector<int>{1, ranks});
  const layout::Placements some{layout::replicate(), layout::shard()}, all{layout::shard(), layout::shard()};
  std::vector<NamedState> states{make_state(mesh, shapes, dtype, some, "a", std::make_shared<Calls>()),
                                 make_state(mesh, shapes, dtype, all, "b", std::make_shared<Calls>())};
  for (const NamedState& state : states)
    fill(state.main_gradient, first_value);
  return states;
}

void put(const NamedState& state, int tensor, std::int64_t index, double value) {
  const buffer::TensorRange own = state.main_gradient.tensor_range(tensor);
  if (index >= own.offset && index < own.offset + own.count)
    write_at(static_cast<std::byte*>(own.data) + (index - own.offset) * width_of(state.main_gradient.dtype()),
             encode({value}, state.main_gradient.dtype()).data(), width_of(state.main_gradient.dtype()));
}

template <class Expected>
void expect_gradients(const std::vector<NamedState>& states, Expected&& expected) {
  for (const NamedState& state : states) {
    for_elements(state.main_gradient, [&](double found, int t, std::int64_t i) {
      EXPECT_EQ(found, expected(stored(first_value(t, i), state.main_gradient.dtype()), state.main_gradient.dtype()));
    });
    expect_zero_padding(state.main_gradient, "gradient");
  }
}

const auto unchanged = [](double value, DType) { return value; };

double plain_norm(DType dtype) {
  long double sum = 0;
  for (std::size_t t = 0; t < shapes.size(); ++t)
    for (std::int64_t i = 0; i < layout::numel(shapes[t]); ++i)
      sum += 2 * std::pow(static_cast<long double>(stored(first_value(static_cast<int>(t), i), dtype)), 2);
  return static_cast<double>(std::sqrt(sum));
}

TEST(Clip, ALargeNorm) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const double max_norm : {1.0, 0.125, 0.0}) {
      const auto states = make_states(dtype);
      const double norm = clip_gradients(states, max_norm);
      EXPECT_NEAR(norm, plain_norm(dtype), 1e-14);
      const double factor = max_norm / (norm + 1e-6);
      expect_gradients(states, [=](double value, DType type) { return stored(factor * value, type); });
      EXPECT_NEAR(gradient_norm(states), max_norm * norm / (norm + 1e-6), dtype == DType::f64 ? 1e-14 : 1e-6);
    }
}

TEST(Clip, ASmallNormChangesNothing) {
  for (const double max_norm : {100.0, inf}) {
    const auto states = make_states();
    EXPECT_NEAR(clip_gradients(states, max_norm), plain_norm(DType::f64), 1e-14);
    expect_gradients(states, unchanged);
  }
  const auto states = make_states();
  const double norm = gradient_norm(states);
  EXPECT_EQ(clip_gradients(states, norm), norm); // not larger
  expect_gradients(states, unchanged);
}

TEST(Clip, OtherNorms) {
  const auto states = make_states();
  const double largest = gradient_norm(states, Norm::max);
  EXPECT_EQ(clip_gradients(states, largest / 2, Norm::max), largest);
  expect_gradients(states, [=](double value, DType) { return largest / 2 / (largest + 1e-6) * value; });
}

TEST(Clip, HugeNumbers) {
  const auto states = make_states();
  scale_gradients(states, 1e200);
  const double norm = clip_gradients(states, 1);
  EXPECT_NEAR(norm / 1e200, plain_norm(DType::f64), 1e-13);
  EXPECT_NEAR(gradient_norm(states), 1, 1e-14);
}

TEST(Clip, NotFiniteChangesNothing) {
  for (const double special : {nan, inf, -inf}) {
    const auto states = make_states();
    put(states[1], 0, 11, special);
    expect_error(Status::INVALID_STATE, [&] { clip_gradients(states, 1e-3); },
                 {"b.p0", "element 11", "skip this step", std::isnan(special) ? "NaN" : "infinite"});
    put(states[1], 0, 11, first_value(0, 11));
    expect_gradients(states, unchanged);
  }
}

TEST(Clip, ANormBeyondF64) {
  const auto states = make_states();
  scale_gradients(states, 1.7e308);
  expect_error(Status::INVALID_STATE, [&] { clip_gradients(states, 1); }, {"norm of the gradients"});
}

TEST(Clip, BadArguments) {
  const auto states = make_states();
  for (const double bad : {nan, -1.0, -inf})
    expect_error(Status::INVALID_ARGUMENT, [&] { clip_gradients(states, bad); }, {"max_norm"});
  for (const double bad : {nan, inf})
    expect_error(Status::INVALID_ARGUMENT, [&] { scale_gradients(states, bad); }, {"factor"});
  expect_gradients(states, unchanged);
}

TEST(Scale, RoundsOnce) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const double factor : {1.0 / 3, -2.0, 0.0, 1.0, 1e-50}) {
      const auto states = make_states(dtype);
      scale_gradients(states, factor);
      expect_gradients(states, [=](double value, DType type) { return stored(factor * value, type); });
    }
}

TEST(Scale, AMissingGradient) {
  auto states = make_states();
  states[1].has_gradient = [] { return false; };
  expect_error(Status::INVALID_STATE, [&] { scale_gradients(states, 2); }, {"scale_gradients", "b.p0"});
  expect_gradients(states, unchanged);
}

TEST(CheckFinite, AllAre) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const auto states = make_states(dtype);
    put(states[0], 0, 3, dtype == DType::f64 ? -1.7e308 : 3.4e38);
    put(states[0], 0, 4, -0.0);
    put(states[1], 1, 3, dtype == DType::f64 ? 4.9e-324 : 1e-45);
    EXPECT_FALSE(find_non_finite(states).has_value());
    check_finite(states);
  }
  check_finite({});
}

// One element at a time, everywhere: found on all ranks, where it is, with its owner.
TEST(CheckFinite, OneIsNot) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const double special : {nan, inf, -inf}) {
      const auto states = make_states(dtype);
      for (const NamedState& state : states)
        for (std::size_t t = 0; t < shapes.size(); ++t)
          for (std::int64_t i = 0; i < layout::numel(shapes[t]); ++i) {
            const int tensor = static_cast<int>(t);
            put(state, tensor, i, special);
            const auto found = find_non_finite(states);
            put(state, tensor, i, first_value(tensor, i));
            ASSERT_TRUE(found.has_value());
            EXPECT_EQ(found->parameter, state.tensor_names[t]);
            EXPECT_EQ(found->index, i);
            EXPECT_TRUE(found->value == special || std::isnan(special));
            const buffer::TensorRange own = state.main_gradient.tensor_range(tensor);
            const bool is_here = i >= own.offset && i < own.offset + own.count;
            const int mine = is_here ? rank : ranks;
            int lowest = 0;
            MPI_Allreduce(&mine, &lowest, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
            EXPECT_EQ(found->rank, lowest);
          }
    }
}

TEST(CheckFinite, TheFirstOfSeveral) {
  const auto states = make_states();
  const auto expect_first = [&](const std::string& parameter, const std::string& element, const std::string& what) {
    expect_error(Status::INVALID_STATE, [&] { check_finite(states); }, {"'" + parameter + "' is " + what, element});
  };
  put(states[1], 1, 16, inf);
  expect_first("b.p1", "element 16 ", "infinite");
  put(states[1], 1, 2, -inf);
  expect_first("b.p1", "element 2 ", "-infinite");
  put(states[1], 0, 14, nan);
  expect_first("b.p0", "element 14 ", "NaN");
  put(states[0], 1, 16, nan);
  expect_first("a.p1", "element 16 ", "NaN");
  put(states[0], 0, 14, inf);
  expect_first("a.p0", "element 14 ", "infinite");
}

// One replica alone is wrong, which the norm, that reads each element once, may not see.
TEST(CheckFinite, ReplicasAreCheckedAll) {
  const auto mesh = make_mesh();
  for (int broken = 0; broken < ranks; ++broken) {
    const NamedState state = make_state(mesh, {{9}}, DType::f64, {layout::replicate()}, "m", std::make_shared<Calls>());
    if (rank == broken)
      put(state, 0, 4, nan);
    const auto found = find_non_finite({&state, 1});
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(found->rank, broken);
    EXPECT_EQ(found->index, 4);
  }
}

TEST(OptimizerGradients, TheMethodsWorkOnItsStates) {
  const auto states = make_states();
  const auto sgd = make_sgd(states, {.learning_rate = 1});
  const double norm = sgd->gradient_norm();
  EXPECT_NEAR(norm, plain_norm(DType::f64), 1e-14);
  sgd->scale_gradients(2);
  EXPECT_EQ(sgd->gradient_norm(), 2 * norm);
  EXPECT_EQ(sgd->clip_gradients(norm), 2 * norm);
  sgd->check_finite();
  put(states[0], 1, 0, nan);
  expect_error(Status::INVALID_STATE, [&] { sgd->check_finite(); }, {"a.p1"});
  EXPECT_EQ(sgd->find_non_finite()->parameter, "a.p1");
}

} // namespace
} // namespace ostraka::optim::test
