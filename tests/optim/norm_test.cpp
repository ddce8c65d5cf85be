// SPDX-License-Identifier: Apache-2.0
// Norms of gradients against sums in long double over whole tensors.
#include "optim_test.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

namespace ostraka::optim::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();
constexpr double denormal = std::numeric_limits<double>::denorm_min();
const std::vector<layout::Shape> shapes{{5, 3}, {}, {0, 4}, {17}, {2, 2, 3}};

using Value = std::function<double(int tensor, std::int64_t index)>;

NamedState gradients(const buffer::MeshPtr& mesh, const layout::Placements& placements, DType dtype, const Value& value,
                     const std::vector<layout::Shape>& of = shapes) {
  const NamedState state = make_state(mesh, of, dtype, placements, "m", std::make_shared<Calls>());
  fill(state.main_gradient, value);
  return state;
}

// Nothing of `long double` overflows or underflows where double does.
double plain_norm(Norm norm, DType dtype, const Value& value, const std::vector<layout::Shape>& of = shapes) {
  long double sum = 0, largest = 0;
  for (std::size_t t = 0; t < of.size(); ++t)
    for (std::int64_t i = 0; i < layout::numel(of[t]); ++i) {
      const long double size = std::abs(static_cast<long double>(stored(value(static_cast<int>(t), i), dtype)));
      sum += norm == Norm::l1 ? size : size * size;
      largest = std::max(largest, size);
    }
  return static_cast<double>(norm == Norm::l1 ? sum : norm == Norm::l2 ? std::sqrt(sum) : largest);
}

// The same on all ranks, bit for bit.
double norm_everywhere(std::span<const NamedState> states, Norm norm) {
  const double found = gradient_norm(states, norm);
  std::vector<double> all(static_cast<std::size_t>(ranks));
  MPI_Allgather(&found, 1, MPI_DOUBLE, all.data(), 1, MPI_DOUBLE, MPI_COMM_WORLD);
  for (const double other : all)
    EXPECT_EQ(std::memcmp(&other, &found, sizeof found), 0) << other << " beside " << found;
  return found;
}

void expect_norms(DType dtype, const Value& value) {
  for (const auto& [mesh, placements] : all_placements())
    for (const Norm norm : {Norm::l1, Norm::l2, Norm::max}) {
      SCOPED_TRACE(layout::to_string(placements) + " of " + std::to_string(mesh->axis_size(0)) + " x ...");
      const NamedState state = gradients(mesh, placements, dtype, value);
      const double expected = plain_norm(norm, dtype, value);
      EXPECT_NEAR(norm_everywhere({&state, 1}, norm), expected, 1e-14 * expected) << static_cast<int>(norm);
    }
}

TEST(Norm, Case20ReplicatedTensorsCountOnce) {
  for (int outer = 1; outer <= ranks; ++outer) {
    if (ranks % outer != 0)
      continue;
    const auto mesh = make_mesh({outer, ranks / outer});
    for (const layout::Placements& cut : {layout::Placements{layout::shard(), layout::shard()},
                                          layout::Placements{layout::replicate(), layout::shard()}})
      for (const DType dtype : {DType::f64, DType::f32}) {
        const std::vector<double> full{3, 0, 0, 4};
        const std::vector<NamedState> states{
            gradients(mesh, cut, dtype, [&](int, std::int64_t i) { return full[static_cast<std::size_t>(i)]; }, {{4}}),
            gradients(mesh, {layout::replicate(), layout::replicate()}, dtype, [](int, std::int64_t) { return 12.0; },
                      {{1}})};
        EXPECT_EQ(norm_everywhere(states, Norm::l2), 13.0);
        EXPECT_EQ(norm_everywhere(states, Norm::l1), 19.0);
        EXPECT_EQ(norm_everywhere(states, Norm::max), 12.0);
      }
  }
}

TEST(Norm, Case21SixteenOnes) {
  for (const auto& [mesh, placements] : all_placements()) {
    const NamedState state = gradients(mesh, placements, DType::f64, [](int, std::int64_t) { return 1.0; }, {{4, 4}});
    EXPECT_EQ(norm_everywhere({&state, 1}, Norm::l2), 4.0) << layout::to_string(placements);
  }
}

TEST(Norm, OrdinaryNumbers) {
  for (const DType dtype : {DType::f64, DType::f32})
    expect_norms(dtype, [](int t, std::int64_t i) { return gradient_value(t, i, 1); });
}

TEST(Norm, SquaresBeyondTheNumbersOfF64) {
  for (const double scale : {1e200, 1e-200, 1e160, 1e-160, 1e306, 1e-308, denormal})
    expect_norms(DType::f64, [=](int t, std::int64_t i) { return scale * ((t + i) % 3) * (i % 2 == 0 ? 0.5 : -0.25); });
}

TEST(Norm, LargeAndSmallNumbersTogether) {
  const double large = 1e200;
  for (const double other : {1.0, 1e100, 1e199, 1e-200})
    expect_norms(DType::f64, [=](int t, std::int64_t i) { return (t + i) % 4 == 0 ? large : other; });
  for (const double other : {1e-150, 1e-140, 1e-134, denormal})
    expect_norms(DType::f64, [=](int t, std::int64_t i) { return (t + i) % 4 == 0 ? 1e-136 : other; });
}

TEST(Norm, F32AtItsLimits) {
  for (const double scale : {3e38, 1e-45, 1e-38})
    expect_norms(DType::f32, [=](int t, std::int64_t i) { return scale * static_cast<double>((t + i) % 3 == 0); });
}

TEST(Norm, ZerosOfBothSigns) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const auto& [mesh, placements] : all_placements())
      for (const Norm norm : {Norm::l1, Norm::l2, Norm::max}) {
        const NamedState state =
            gradients(mesh, placements, dtype, [](int, std::int64_t i) { return i % 2 == 0 ? -0.0 : 0.0; });
        const double found = norm_everywhere({&state, 1}, norm);
        EXPECT_TRUE(found == 0 && !std::signbit(found));
      }
}

TEST(Norm, NotFinite) {
  for (const DType dtype : {DType::f64, DType::f32})
    for (const auto& [mesh, placements] : all_placements())
      for (const Norm norm : {Norm::l1, Norm::l2, Norm::max})
        for (const std::int64_t at : {0, 7, 16}) {
          const auto with = [&, p = placements, m = mesh](double special, double second) {
            const NamedState state = gradients(m, p, dtype, [=](int t, std::int64_t i) {
              return t != 3 ? 1.0 : i == at ? special : i == 9 ? second : 1.0;
            });
            return norm_everywhere({&state, 1}, norm);
          };
          EXPECT_TRUE(std::isnan(with(nan, 1)));
          EXPECT_EQ(with(-inf, 1), inf);
          EXPECT_EQ(with(inf, inf), inf);
          EXPECT_TRUE(std::isnan(with(nan, inf)));
          EXPECT_TRUE(std::isnan(with(inf, nan)));
        }
}

// Blocks and vectors of the kernels, with their ends, and elements of every size.
TEST(Norm, ManyElementsOfEverySize) {
  std::mt19937_64 numbers(fresh_seed("ManyElementsOfEverySize"));
  for (const std::int64_t count : {2047, 2048, 2049, 10000})
    for (const double spread : {1.0, 100.0, 1000.0}) {
      std::uniform_real_distribution<double> exponent(-spread, spread);
      std::vector<double> values(static_cast<std::size_t>(count));
      for (double& value : values)
        value = std::exp2(exponent(numbers));
      const Value value = [&](int, std::int64_t i) { return values[static_cast<std::size_t>(i)]; };
      for (const layout::Placements& placements : {layout::Placements{layout::shard()}, {layout::replicate()}})
        for (const Norm norm : {Norm::l1, Norm::l2, Norm::max}) {
          const NamedState state = gradients(make_mesh(), placements, DType::f64, value, {{count}});
          const double expected = plain_norm(norm, DType::f64, value, {{count}});
          EXPECT_NEAR(norm_everywhere({&state, 1}, norm), expected, 1e-14 * expected);
        }
    }
}

// The square of none of them is large, but that of all is.
TEST(Norm, ManyLargeNumbers) {
  for (const double value : {0x1p505, 0x1p499, 0x1p-505}) {
    const Value all = [=](int, std::int64_t) { return value; };
    const NamedState state = gradients(make_mesh(), {layout::shard()}, DType::f64, all, {{40000}});
    EXPECT_NEAR(norm_everywhere({&state, 1}, Norm::l2) / value, 200, 1e-12);
  }
}

TEST(Norm, BeyondTheNumbersOfF64IsInfinite) {
  const NamedState state =
      gradients(make_mesh(), {layout::shard()}, DType::f64, [](int, std::int64_t) { return 1.5e308; });
  EXPECT_EQ(norm_everywhere({&state, 1}, Norm::l2), inf);
  EXPECT_EQ(norm_everywhere({&state, 1}, Norm::l1), inf);
  EXPECT_EQ(norm_everywhere({&state, 1}, Norm::max), 1.5e308);
}

TEST(Norm, WithoutStates) { EXPECT_EQ(gradient_norm({}), 0); }

TEST(Norm, RandomGroupsOfStates) {
  std::mt19937_64 numbers(fresh_seed("RandomGroupsOfStates"));
  const auto pick = [&](std::size_t below) { return static_cast<std::size_t>(numbers() % below); };
  const auto places = all_placements();
  for (int round = 0; round < 20; ++round) {
    std::vector<NamedState> states;
    long double squares = 0;
    for (std::size_t s = 0; s <= pick(4); ++s) {
      std::vector<layout::Shape> of(1 + pick(3));
      for (layout::Shape& shape : of)
        for (std::size_t d = pick(4); d > 0; --d)
          shape.push_back(static_cast<std::int64_t>(pick(6)));
      const auto& [mesh, placements] = places[pick(places.size())];
      const DType dtype = pick(2) == 0 ? DType::f64 : DType::f32;
      const Value value = [s](int t, std::int64_t i) { return gradient_value(t + 7 * static_cast<int>(s), i, 3); };
      states.push_back(gradients(mesh, placements, dtype, value, of));
      const long double norm = plain_norm(Norm::l2, dtype, value, of);
      squares += norm * norm;
    }
    const auto expected = static_cast<double>(std::sqrt(squares));
    EXPECT_NEAR(norm_everywhere(states, Norm::l2), expected, 1e-14 * expected);
  }
}

TEST(NormErrors, AnUnknownNorm) {
  expect_error(Status::INVALID_ARGUMENT, [] { gradient_norm({}, static_cast<Norm>(4)); }, {"max (3)", "found 4"});
}

// Also where only one rank notices.
TEST(NormErrors, AMissingGradientOnOneRank) {
  const auto mesh = make_mesh();
  for (int missing = 0; missing < ranks; ++missing) {
    const auto calls = std::make_shared<Calls>();
    const NamedState state = make_state(mesh, {{6}}, DType::f64, {layout::shard()}, "layer", calls);
    calls->has_gradient = missing != rank;
    expect_error(Status::INVALID_STATE, [&] { gradient_norm({&state, 1}); }, {"gradient_norm", "layer.p0", "gradient"});
    expect_error(Status::INVALID_STATE, [&] { check_finite({&state, 1}); }, {"check_finite", "layer.p0"});
    expect_error(Status::INVALID_STATE, [&] { clip_gradients({&state, 1}, 1); }, {"layer.p0"});
    calls->has_gradient = true;
    EXPECT_EQ(gradient_norm({&state, 1}), 0);
  }
}

TEST(NormErrors, RanksWithOtherArguments) {
  const NamedState state =
      make_state(make_mesh(), {{6}}, DType::f64, {layout::shard()}, "layer", std::make_shared<Calls>());
  const bool differs = ranks > 1 && rank == ranks - 1;
  const auto check = [](auto&& action) {
    if (ranks > 1)
      expect_error(Status::RANKS_DISAGREE, action, {"different arguments"});
    else
      action();
  };
  check([&] { gradient_norm({&state, 1}, differs ? Norm::l1 : Norm::l2); });
  check([&] { clip_gradients({&state, 1}, differs ? 2 : 1); });
  check([&] { clip_gradients({&state, 1}, 1, differs ? Norm::max : Norm::l2); });
  if (ranks > 1)
    expect_error(Status::INVALID_ARGUMENT, [&] { clip_gradients({&state, 1}, differs ? nan : 1); }, {"max_norm"});
  EXPECT_EQ(gradient_norm({&state, 1}), 0);
}

TEST(NormErrors, StatesOnMeshesOfOtherRanks) {
  const auto mesh = make_mesh();
  const auto alone = mesh::DeviceMesh::create(MPI_COMM_SELF, {1});
  std::vector<NamedState> states{
      make_state(mesh, {{6}}, DType::f64, {layout::shard()}, "many", std::make_shared<Calls>()),
      make_state(alone, {{6}}, DType::f64, {layout::shard()}, "one", std::make_shared<Calls>())};
  if (rank == 0) // as experts may stand elsewhere on other ranks
    std::swap(states[0], states[1]);
  if (ranks > 1)
    expect_error(Status::INVALID_ARGUMENT, [&] { gradient_norm(states); }, {"one.p0", "many.p0", "other ranks"});
}

} // namespace
} // namespace ostraka::optim::test
