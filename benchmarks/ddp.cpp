// SPDX-License-Identifier: Apache-2.0
// A step of DistributedDataParallel that is nearly all communication: forward and backward through 8 layers of
// 2048 x 2048 f32 with one row of input, a bucket per layer unless the name says otherwise. Exposed is a step minus the
// same arithmetic without any communication, with a gradient buffer per layer, of the same round. Medians of
// interleaved rounds.
// usage: ddp [NAME STEP_MS EXPOSED_MS] ..., steps of others that were measured at the same time (ddp.peers)

// ranks: 2
#include "support/limit.hpp"
#include "support/steps.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/ddp/distributed_data_parallel.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <mpi.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

using namespace ostraka;
using namespace ostraka::bench;

namespace {

constexpr int num_rounds = 9;
constexpr double least_factor = 10; ///< below PyTorch DDP, exposed (issue 8)

using Weights = std::vector<std::vector<float>>;

std::string weight_name(int layer) { return "layer" + std::to_string(layer) + ".weight"; }

/// The library's, on the back end that OSTRAKA_BACKEND names when it is made.
class DdpStep {
public:
  DdpStep(const Weights& weights, const ddp::Config& config) {
    ddp_ = ddp::DistributedDataParallel::create(mesh::DeviceMesh::create_line(MPI_COMM_WORLD), config);
    for (int layer = 0; layer < num_layers; ++layer) {
      names_.push_back(weight_name(layer));
      ddp_->add_parameter({names_.back(), {dim, dim}, DType::f32});
    }
    ddp_->finalize();
    for (int layer = 0; layer < num_layers; ++layer)
      ddp_->set_parameter(names_[layer], weights[layer].data(), layer_elements, DType::f32);
  }

  void operator()() {
    ddp_->zero_grad_buffer();
    for (int layer = 0; layer < num_layers; ++layer)
      network_.forward(layer, weight(layer));
    for (int layer = num_layers - 1; layer >= 0; --layer) {
      network_.backward(layer, weight(layer), static_cast<float*>(ddp_->gradient(names_[layer], DType::f32).data));
      ddp_->gradient_ready(names_[layer]);
    }
    ddp_->finish_grad_sync();
  }

  buffer::TensorRange main_gradient(int layer) const { return ddp_->main_gradient(names_[layer], DType::f32); }

private:
  const float* weight(int layer) { return static_cast<const float*>(ddp_->parameter(names_[layer], DType::f32)); }

  std::shared_ptr<ddp::DistributedDataParallel> ddp_;
  std::vector<std::string> names_;
  Network network_;
};

/// What a code does with MPI alone: an all-reduce of each gradient in place.
class StockAllreduce {
public:
  explicit StockAllreduce(const Weights& weights)
      : weights_(weights), gradients_(num_layers, std::vector<float>(layer_elements)) {}

  void operator()() {
    for (int layer = 0; layer < num_layers; ++layer)
      network_.forward(layer, weights_[layer].data());
    std::vector<MPI_Request> requests(num_layers, MPI_REQUEST_NULL);
    for (int layer = num_layers - 1; layer >= 0; --layer) {
      network_.backward(layer, weights_[layer].data(), gradients_[layer].data());
      MPI_Iallreduce(MPI_IN_PLACE, gradients_[layer].data(), static_cast<int>(layer_elements), MPI_FLOAT, MPI_SUM,
                     MPI_COMM_WORLD, &requests[layer]);
    }
    MPI_Waitall(num_layers, requests.data(), MPI_STATUSES_IGNORE);
  }

private:
  const Weights& weights_;
  std::vector<std::vector<float>> gradients_;
  Network network_;
};

// All ranks had the same input, so the mean is the gradient of one.
void check_gradients(const DdpStep& taken, LonelyStep& lonely, const std::string& name) {
  for (int layer = 0; layer < num_layers; ++layer) {
    const buffer::TensorRange found = taken.main_gradient(layer);
    for (std::int64_t i = 0; i < found.count; ++i) {
      const float expected = lonely.gradient(layer)[found.offset + i];
      expect(std::abs(static_cast<const float*>(found.data)[i] - expected) <= 1e-5f * (1 + std::abs(expected)),
             Status::INTERNAL, name, ": the gradient of layer ", layer, " is wrong");
    }
  }
}

enum Column { step, alone, limit };

double print(const std::string& name, const Operation& taken, LonelyStep& lonely, const Operation& bound, int rank) {
  const std::vector<Operation> operations{taken, [&] { lonely(); }, bound};
  for (const Operation& operation : operations)
    operation(); // touches its memory
  const Rounds rounds = measure(operations, {1, 1, 1}, num_rounds);
  const double exposed = rounds.median([&](int i) { return rounds.us[step][i] - rounds.us[alone][i]; }) / 1000;
  const double of_limit =
      rounds.median([&](int i) { return (rounds.us[step][i] - rounds.us[alone][i]) / rounds.us[limit][i]; });
  if (rank == 0)
    std::printf("%-44s %8.1f %8.1f %8.1f %8.1f %7.2f %6d %6d%s\n", name.c_str(), rounds.median(step) / 1000,
                rounds.median(alone) / 1000, rounds.median(limit) / 1000, exposed, of_limit, rounds.size(),
                rounds.discarded, rounds.is_calm ? "" : "  disturbed");
  std::fflush(stdout);
  return exposed;
}

double measure_library(const char* backend, const std::string& name, const Weights& weights, const ddp::Config& config,
                       LonelyStep& lonely, const Operation& bound, int rank) {
  setenv("OSTRAKA_BACKEND", backend, 1);
  DdpStep taken(weights, config);
  taken();
  lonely();
  check_gradients(taken, lonely, name);
  return print(
      name + ", " + backend, [&] { taken(); }, lonely, bound, rank);
}

void run(int count, char** arguments) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0)
    std::printf("%d ranks, %d layers of %lld x %lld f32; ms; limit: a reduce-scatter of all gradients between private "
                "buffers\n%-44s %8s %8s %8s %8s %7s %6s %6s\n",
                ranks, num_layers, static_cast<long long>(dim), static_cast<long long>(dim), "step", "step", "alone",
                "limit", "exposed", "x limit", "rounds", "thrown");
  Weights weights;
  for (int layer = 0; layer < num_layers; ++layer)
    weights.push_back(make_weight(layer));
  LonelyStep lonely(weights, num_layers, {}, ranks);
  const Operation bound = make_limit({ranks, 1, num_layers * layer_elements / ranks * size_of(DType::f32)}, DType::f32);
  ddp::Config config;
  config.bucket_size = layer_elements;
  const auto measured = [&](const char* backend, const std::string& name) {
    return measure_library(backend, name, weights, config, lonely, bound, rank);
  };
  const double ours = measured("node", "all-reduce");
  config.sharded_optimizer = true;
  measured("node", "sharded optimizer");
  config.sharded_optimizer = false;
  config.bucket_size.reset();
  measured("node", "all-reduce, one bucket (default size)");
  config.bucket_size = layer_elements;
  measured("mpi", "all-reduce");
  StockAllreduce stock(weights);
  const double plain = print(
      "MPI alone", [&] { stock(); }, lonely, bound, rank);
  if (rank != 0)
    return;
  const auto compare = [&](const char* name, double exposed, double least) {
    std::printf("  %-14s %8.1f ms exposed, %5.1f times ours%s\n", name, exposed, exposed / ours,
                ours > 0 && exposed < least * ours ? "  misses its target" : "");
  };
  compare("MPI alone", plain, 0);
  for (int i = 0; i + 2 < count; i += 3) {
    std::printf("  PyTorch %s: a step of %s ms\n", arguments[i], arguments[i + 1]);
    compare(arguments[i], std::atof(arguments[i + 2]), least_factor);
  }
}

} // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  int status = 0;
  try {
    const runtime::Session session;
    run(argc - 1, argv + 1);
  } catch (const Error& error) {
    std::fprintf(stderr, "%s: %s\n", name(error.status()), error.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
    status = 1;
  }
  MPI_Finalize();
  return status;
}
