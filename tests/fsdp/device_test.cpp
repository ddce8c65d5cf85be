// SPDX-License-Identifier: Apache-2.0
// FSDP in memory of GPUs, on the double of CUDA and NCCL: which calls of NCCL a step makes, and what it waits for.
#include "network.hpp"
#include "support/double/double.hpp"
#include "support/rounds.hpp"
#include "support/scoped_environment.hpp"

#include <algorithm>
#include <map>

namespace ostraka::fsdp::test {
namespace {

using cuda_double::Call;
using runtime::Device;

constexpr int layers = 4, width = 8;

buffer::MeshPtr make_device_mesh(std::vector<int> sizes = {ranks}) {
  return mesh::DeviceMesh::create(MPI_COMM_WORLD, std::move(sizes), {}, Device::cuda);
}

Options four_layers(Recipe recipe, int micro_batches) {
  Options options;
  options.net = mlp({width, width, width, width, width});
  options.config = make_config(recipe, layout::ReduceOp::sum);
  options.micro_batches = micro_batches;
  return options;
}

std::vector<Call> calls_of_a_step(Training<double>& training) {
  training.step();
  cuda_double::take_calls();
  training.step();
  return cuda_double::take_calls();
}

int count(const std::vector<Call>& calls, const std::string& name) {
  return static_cast<int>(
      std::count_if(calls.begin(), calls.end(), [&](const Call& call) { return call.name == name; }));
}

struct Expected {
  Recipe recipe;
  int gathers, reductions; ///< spec 3.9: four layers, two micro-batches
};

TEST(FsdpDevice, CallsOfAStepAreThoseOfTheTable) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  if (ranks == 1)
    GTEST_SKIP() << "one rank has nothing to communicate";
  const auto mesh = make_device_mesh();
  for (const Expected& expected : {Expected{Recipe::zero_1, 4, 4}, {Recipe::zero_2, 4, 8}, {Recipe::zero_3, 16, 8}}) {
    SCOPED_TRACE(text(expected.recipe));
    Training<double> training(mesh, four_layers(expected.recipe, 2));
    const std::vector<Call> calls = calls_of_a_step(training);
    EXPECT_EQ(count(calls, "ncclAllGather"), expected.gathers);
    EXPECT_EQ(count(calls, "ncclReduceScatter"), expected.reductions);
    EXPECT_EQ(calls.size(), static_cast<std::size_t>(expected.gathers + expected.reductions));
    std::map<std::string, int> streams;
    for (const Call& call : calls) {
      const bool gathers = call.name == "ncclAllGather";
      EXPECT_EQ(call.communicator, std::string("fsdp context axis0 ") + (gathers ? "gather" : "reduce"));
      EXPECT_EQ(call.count * ranks, width * width + width); // weight and bias, which need no padding
      EXPECT_EQ(streams.emplace(call.name, call.stream).first->second, call.stream);
      EXPECT_EQ(std::count_if(calls.begin(), calls.end(), [&](const Call& one) { return one.launch == call.launch; }),
                1);
    }
    EXPECT_NE(streams["ncclAllGather"], streams["ncclReduceScatter"]);
    training.expect_equal(1e-12);
  }
}

TEST(FsdpDevice, CallsOfTwoAxes) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  if (ranks != 4)
    GTEST_SKIP() << "two axes of two ranks";
  const auto mesh = make_device_mesh({2, 2});
  for (const Expected& expected : {Expected{Recipe::hsdp, 16, 8}, {Recipe::hfsdp, 20, 12}}) { // m*g, (m+1)*g
    SCOPED_TRACE(text(expected.recipe));
    Training<double> training(mesh, four_layers(expected.recipe, 2));
    const std::vector<Call> calls = calls_of_a_step(training);
    EXPECT_EQ(count(calls, "ncclAllGather"), expected.gathers);
    EXPECT_EQ(count(calls, "ncclReduceScatter"), expected.reductions);
    EXPECT_EQ(count(calls, "ncclAllReduce"), expected.recipe == Recipe::hsdp ? layers : 0);
    training.expect_equal(1e-12);
  }
}

/// A module with groups of three kinds, two of which are trained.
struct Mixed {
  explicit Mixed(const buffer::MeshPtr& mesh, Recipe recipe)
      : context(FsdpContext::create(mesh, make_config(recipe, layout::ReduceOp::sum))),
        module(context->add_module("mixed")) {
    for (const auto& [name, dtype, trainable] :
         {std::tuple{"a", DType::f64, true}, {"b", DType::f32, true}, {"c", DType::f64, false}}) {
      module.add_parameter({name, {48}, dtype, trainable});
    }
    module.build();
    for (const char* name : {"a", "b", "c"})
      module.set_parameter(name, std::vector<double>(48, 2).data(), 48, DType::f64);
    context->finalize();
    sgd = optim::make_sgd(context->named_states(), {.learning_rate = 0.5});
  }

  template <class T>
  void write(const char* name, DType dtype) {
    const auto gradient = module.gradient(name, dtype);
    on_stream(
        Device::cuda,
        [=](auto out, auto weight) {
          for (std::size_t i = 0; i < out.size(); ++i)
            contribute(&out[i], gradient.beta, weight[i] + static_cast<T>(rank));
        },
        span_of(static_cast<T*>(gradient.data), 48), span_of(static_cast<const T*>(module.parameter(name, dtype)), 48));
  }

  void step() {
    context->zero_grad();
    module.pre_forward();
    module.post_forward();
    module.pre_backward();
    write<double>("a", DType::f64);
    write<float>("b", DType::f32);
    module.post_backward();
    context->finish_backward();
    sgd->step();
  }

  std::shared_ptr<FsdpContext> context;
  FsdpModule& module;
  std::unique_ptr<optim::Optimizer> sgd;
};

TEST(FsdpDevice, GroupsOfAModuleAreOneLaunch) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  if (ranks == 1)
    GTEST_SKIP() << "one rank has nothing to communicate";
  std::vector<std::pair<buffer::MeshPtr, Recipe>> cases{{make_device_mesh(), Recipe::zero_3}};
  if (ranks == 4)
    for (const Recipe recipe : {Recipe::hsdp, Recipe::hfsdp})
      cases.emplace_back(make_device_mesh({2, 2}), recipe);
  for (const auto& [mesh, recipe] : cases) {
    SCOPED_TRACE(text(recipe));
    Mixed mixed(mesh, recipe);
    mixed.step();
    cuda_double::take_calls();
    mixed.step();
    std::map<std::string, std::map<int, int>> launches; // [communicator][launch]
    for (const Call& call : cuda_double::take_calls())
      ++launches[call.communicator][call.launch];
    for (const auto& [communicator, sizes] : launches)
      for (const auto& [launch, size] : sizes) {
        const bool reduces = communicator.ends_with("reduce");
        const bool frozen_too = !reduces && communicator.find("axis0") == std::string::npos;
        EXPECT_EQ(size, !reduces && (mesh->dims() == 1 || frozen_too) ? 3 : reduces ? 2 : size) << communicator;
      }
    const std::string inner = "fsdp context axis" + std::to_string(mesh->dims() - 1);
    EXPECT_EQ(launches[inner + " gather"].size(), 2u); // forward and backward
    EXPECT_EQ(launches[inner + " reduce"].size(), 1u);
    double weight = 2;
    for (int step = 0; step < 2; ++step)
      weight -= 0.5 * (ranks * weight + ranks * (ranks - 1) / 2.0);
    for (const char* name : {"a", "b"})
      EXPECT_EQ(whole_parameter(mixed.module, name), std::vector<double>(48, weight)) << name;
    EXPECT_EQ(whole_parameter(mixed.module, "c"), std::vector<double>(48, 2));
  }
}

/// While one lives the device runs nothing.
struct Held {
  Held() { cuda_double::hold_device(true); }
  ~Held() { cuda_double::hold_device(false); }
};

// Not even for the end of reductions: the host is through a step before the device has begun.
TEST(FsdpDevice, StepsDoNotWaitForTheDevice) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0"), limit("OSTRAKA_TIMEOUT_S", "20");
  const auto mesh = make_device_mesh();
  for (const Recipe recipe : {Recipe::no_shard, Recipe::zero_1, Recipe::zero_2, Recipe::zero_3})
    for (const bool fused : {false, true}) {
      SCOPED_TRACE(text(recipe));
      Options options = four_layers(recipe, 2);
      options.optimizer.is_adamw = true;
      Training<double> training(mesh, options);
      if (fused)
        training.optimizer().fuse_with_reduction();
      training.step();
      {
        const Held held;
        training.step();
        training.step();
      }
      training.expect_equal(1e-12);
    }
}

// Norms are numbers, for which callers wait; clipping goes on by itself.
TEST(FsdpDevice, NormsOfGradients) {
  const auto mesh = make_device_mesh();
  Training<double> training(mesh, four_layers(Recipe::zero_3, 1));
  training.backward_all();
  double squares = 0;
  for (const auto& gradient : training.plain_gradients(training.plain_weights()))
    for (const double g : gradient)
      squares += g * g;
  EXPECT_NEAR(training.optimizer().gradient_norm(), std::sqrt(squares), 1e-12);
  EXPECT_NEAR(training.optimizer().clip_gradients(std::sqrt(squares) / 2), std::sqrt(squares), 1e-12);
  EXPECT_NEAR(training.optimizer().gradient_norm(), std::sqrt(squares) / 2, 1e-6);
  training.optimizer().check_finite();
}

TEST(FsdpDevice, AnyOrderOfStreams) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  const auto mesh = make_device_mesh();
  for (int seed = 1; seed <= rounds(2); ++seed)
    for (const Recipe recipe : {Recipe::no_shard, Recipe::zero_1, Recipe::zero_2, Recipe::zero_3})
      for (const int slots : {1, 2}) {
        SCOPED_TRACE(std::string(text(recipe)) + ", seed " + std::to_string(seed));
        cuda_double::set_seed(seed);
        Options options = four_layers(recipe, 2);
        options.config.gradient_slots = slots;
        options.config.unified_stream = seed % 3 == 0;
        options.config.prefetch = slots == 1 ? std::optional<std::int64_t>() : 2 * (width * width + width);
        Training<double> training(mesh, options);
        for (int step = 0; step < 4; ++step)
          training.step();
        training.expect_equal(1e-12);
      }
}

// The compute stream may be the caller's, and another one later.
TEST(FsdpDevice, StepsOnStreamsOfTheCaller) {
  const ScopedEnvironment check("OSTRAKA_CHECK", "0");
  const auto theirs = runtime::make_queue(Device::cuda, "the caller's");
  void* native = nullptr;
  theirs->launch("native", [&](const runtime::Execution& execution) { native = execution.native; });
  const auto mesh = make_device_mesh();
  Training<double> training(mesh, four_layers(Recipe::zero_3, 1));
  training.step();
  runtime::set_compute_stream(native);
  EXPECT_EQ(runtime::native_compute_stream(), native);
  training.step();
  training.step();
  runtime::set_compute_stream(nullptr);
  EXPECT_NE(runtime::native_compute_stream(), native);
  training.step();
  training.expect_equal(1e-12);
}

} // namespace
} // namespace ostraka::fsdp::test
