// SPDX-License-Identifier: Apache-2.0
// Training on all ranks against plain training of the whole batch in one process.
#include "network.hpp"
#include "support/round_16.hpp"

namespace ostraka::ddp::test {
namespace {

std::string text(const Options& options) {
  constexpr const char* scalings[] = {"mean", "pre_scale", "sum"};
  return std::string(scalings[static_cast<int>(options.config.scaling)]) +
         (options.optimizer.is_adamw ? " AdamW" : " SGD") + " micro-batches " + std::to_string(options.micro_batches) +
         (options.config.overlap_param_gather ? " gathers ahead" : "");
}

bool is_full() { return rounds(1) > 1; }

/// Calls body(options) for all-reduce and a sharded optimizer, overlap on and off, {1, 3} micro-batches and both
/// optimizers, each with every scaling if `all_scalings`, else with one after the other.
template <class Body>
void for_all(Options options, bool all_scalings, Body&& body) {
  int round = 0;
  for_all_configs([&](const Config& config) {
    options.config = config;
    for (const bool is_adamw : {false, true})
      for (const int micro_batches : {1, 3}) {
        options.optimizer.is_adamw = is_adamw;
        options.micro_batches = micro_batches;
        for (int scaling = 0; scaling < (all_scalings ? 3 : 1); ++scaling) {
          options.config.scaling = static_cast<Scaling>(all_scalings ? scaling : round++ % 3);
          SCOPED_TRACE(text(options));
          body(options);
        }
      }
  });
}

void expect_parity(const buffer::MeshPtr& mesh, const Options& options, double tolerance, int steps = 3) {
  Training training(mesh, options);
  for (int step = 1; step <= steps; ++step) {
    training.step();
    training.expect_equal(tolerance, "step " + std::to_string(step));
  }
}

void expect_parity(const Architecture& net, std::vector<DType> storages, double tolerance, bool all_scalings) {
  const auto mesh = make_mesh();
  Options options;
  options.net = net;
  options.storages = std::move(storages);
  if (tolerance > 1e-10)
    options.optimizer.epsilon = 1e-3; // gradients near 0 must not be blown up to steps of full size
  for_all(options, all_scalings, [&](const Options& each) { expect_parity(mesh, each, tolerance); });
}

TEST(Parity, LayerSizesThatDoNotDivide) { expect_parity(mlp({5, 7, 3, 1}), {DType::f64}, 1e-12, true); }

TEST(Parity, FewerElementsThanRanks) { expect_parity(mlp({1, 1, 1}), {DType::f64}, 1e-12, is_full()); }

TEST(Parity, ParametersUsedSeveralTimes) {
  Architecture net = mlp({4, 6, 6, 3});
  net.visits = {0, 1, 1, 1, 2};
  expect_parity(net, {DType::f64}, 1e-12, is_full());
}

TEST(Parity, UsesThatAreLearned) {
  const auto mesh = make_mesh();
  Options options;
  options.net = mlp({4, 5, 5, 3});
  options.net.visits = {0, 1, 0, 1, 2};
  options.net.modules[1].out = options.net.modules[0].in;
  options.net.modules[2].in = options.net.modules[1].out;
  for_all(options, false, [&](Options each) {
    each.config.uses = uses_auto;
    expect_parity(mesh, each, 1e-12);
  });
}

TEST(Parity, F32) { expect_parity(mlp({5, 7, 4}), {DType::f32}, 2e-5, is_full()); }

// Two buffers, with buckets of both in turn.
TEST(Parity, SeveralTypes) { expect_parity(mlp({5, 7, 6, 4}), {DType::f32, DType::f64}, 2e-5, is_full()); }

TEST(Parity, VisitedInAnotherOrderThanRegistered) {
  const auto mesh = make_mesh();
  Options options;
  options.net = mlp({6, 5, 5, 2});
  for (const std::vector<int>& order : {std::vector<int>{1, 2, 0}, std::vector<int>{2, 1, 0}}) {
    options.registration = order;
    for_all(options, false, [&](const Options& each) { expect_parity(mesh, each, 1e-12); });
  }
}

TEST(Parity, BucketsOfOtherSizes) {
  const auto mesh = make_mesh();
  Options options;
  options.net = mlp({6, 5, 5, 2});
  for (const int sized : {1, 10, 1000})
    for (const bool gathers_ahead : {false, true}) { // overlap of one kind only
      options.config = make_config(true, !gathers_ahead);
      options.config.overlap_param_gather = gathers_ahead;
      options.config.bucket_size = sized;
      expect_parity(mesh, options, 1e-12);
    }
  options.config.bucket_size.reset();
  options.config.num_buckets = 2;
  expect_parity(mesh, options, 1e-12);
  options.config.num_buckets.reset();
  options.config.disable_bucketing = true;
  expect_parity(mesh, options, 1e-12);
  options.config = make_config(true);
  options.config.pad_for_bandwidth = true;
  expect_parity(mesh, options, 1e-12);
}

TEST(Parity, LayerWise) {
  const auto mesh = make_mesh();
  Options options;
  options.net = mlp({6, 5, 5, 2});
  for_all(options, false, [&](Options each) {
    if (!each.config.sharded_optimizer)
      return;
    each.config.arrangement = Arrangement::layer_wise;
    expect_parity(mesh, each, 1e-12);
  });
}

TEST(Parity, MainWeightsOfOtherTypes) {
  const auto mesh = make_mesh();
  Options options;
  options.micro_batches = 3;
  for (const bool sharded : {false, true}) {
    options.config = make_config(sharded);
    options.config.main_dtype = DType::f32;
    expect_parity(mesh, options, 2e-5);
    options.storages = {DType::f32};
    options.config.main_dtype = DType::f64;
    options.config.gradient_dtype = DType::f64;
    expect_parity(mesh, options, 1e-6);
    options.storages = {DType::f64};
  }
}

Values rounded(Values values) {
  for (auto& parameter : values)
    for (double& value : parameter)
      value = bf16_value(round_to_bf16(value));
  return values;
}

// Weights are bf16(main) after every step. A weight that rounds the other way because gradients are f32 moves gradients
// by 2^-9, hence the bound: 3 steps * 0.05 * 2^-9 * 4, and half a unit of bf16 in weights below 1.
TEST(Parity, Bf16StorageWithF32Main) {
  const auto mesh = make_mesh();
  Options options;
  options.net = mlp({5, 7, 4});
  options.storages = {DType::bf16};
  options.optimizer.epsilon = 1e-2;
  for_all(options, is_full(), [&](const Options& each) {
    Training training(mesh, each);
    EXPECT_EQ(training.parameters(), rounded(training.plain_weights())); // set_parameter rounds, too
    for (int step = 1; step <= 3; ++step) {
      training.backward_all();
      training.optimizer().step();
      training.plain_step(rounded(training.plain_weights()));
    }
    training.expect_equal(2e-3 + 1.0 / 256);
  });
}

/// One linear layer whose data, gradients and steps are short binary fractions: everything is exact.
Options exact_options(const Config& config, DType storage) {
  Options options;
  options.net = mlp({4, 4});
  options.config = config;
  options.config.scaling = Scaling::sum;
  options.storages = {storage};
  options.rows = 16; // on 2, 3, 4 ranks: 5 + 11, 2 + 6 + 8, 1 + 3 + 5 + 7 rows
  options.optimizer.rate = 0.25;
  options.optimizer.momentum = 0.5;
  options.optimizer.weight_decay = 0;
  return options;
}

TEST(Parity, UnevenBatchesSumExactly) {
  const auto mesh = make_mesh();
  for_all_configs([&](const Config& config) {
    for (const int micro_batches : {1, 2}) {
      Options options = exact_options(config, DType::f64);
      options.micro_batches = micro_batches;
      expect_parity(mesh, options, 0, 2);
    }
  });
}

// Gradients of bf16 keep 8 bits: of a sum over `ranks` rows' worth each contribution and the sum are rounded once.
TEST(Parity, GradientsOfBf16) {
  const auto mesh = make_mesh();
  for_all_configs([&](Config config) {
    for (const DType storage : {DType::f32, DType::bf16})
      for (const bool accumulates : {false, true}) {
        config.gradient_dtype = DType::bf16;
        config.f32_accumulators = accumulates ? std::vector<std::string>{"*.weight"} : std::vector<std::string>{};
        Options options;
        options.config = config;
        options.storages = {storage};
        options.micro_batches = 3;
        expect_parity(mesh, options, 0.02);
      }
  });
}

// The name is that of the entries with 6 and 8 ranks.
TEST(Meshes, ReplicasAndShards) {
  const auto mesh = make_plane();
  Options options;
  options.net = mlp({5, 7, 3, 1});
  for_all(options, is_full(), [&](const Options& each) { expect_parity(mesh, each, 1e-12); });
}

TEST(Meshes, OneLine) {
  const auto mesh = make_mesh();
  Options options;
  options.net = mlp({5, 7, 3, 1});
  for_all(options, false, [&](const Options& each) { expect_parity(mesh, each, 1e-12); });
}

TEST(Meshes, AxesOfOneRank) {
  setenv("OSTRAKA_CHECK", "1", 0);
  for (const auto& sizes : {std::vector<int>{ranks, 1}, std::vector<int>{1, ranks}}) {
    const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, sizes);
    for (const bool sharded : {false, true}) {
      Options options;
      options.config = make_config(sharded);
      expect_parity(mesh, options, 1e-12);
    }
  }
}

} // namespace
} // namespace ostraka::ddp::test
