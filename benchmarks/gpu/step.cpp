// SPDX-License-Identifier: Apache-2.0
// A ZeRO-3 step on GPUs: forward and backward through 8 layers of N x N f32 by cuBLAS, with communication that overlaps
// arithmetic, with communication that does not (the host waits for the device after every hook and nothing is gathered
// ahead), arithmetic alone, and communication alone. Medians of interleaved rounds; a sample is the slowest rank's.
// usage: step [N [ROWS]], N x N weights, ROWS rows of input a rank; one rank per GPU
#include <ostraka/base/error.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <cublas_v2.h>
#include <cuda_runtime_api.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

using namespace ostraka;

namespace {

constexpr int num_layers = 8, rounds = 15, warm_up = 2;

void check(bool holds, const char* what) { expect(holds, Status::FAILED, what, " failed"); }
void wait_for_device() { check(cudaDeviceSynchronize() == cudaSuccess, "cudaDeviceSynchronize"); }

/// Floats on the device, all zero, so that no step runs into infinities.
class Floats {
public:
  explicit Floats(std::int64_t count) {
    check(cudaMalloc(&data_, static_cast<std::size_t>(count) * sizeof(float)) == cudaSuccess, "cudaMalloc");
    check(cudaMemset(data_, 0, static_cast<std::size_t>(count) * sizeof(float)) == cudaSuccess, "cudaMemset");
  }
  ~Floats() { cudaFree(data_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;
  float* data() const { return static_cast<float*>(data_); }

private:
  void* data_ = nullptr;
};

/// Products of a layer y = W x, on the library's compute stream. Weights are in C order, rows of x one behind the
/// other.
class Arithmetic {
public:
  Arithmetic(int size, int rows) : size_(size), rows_(rows), x_(elements()), y_(elements()) {
    check(cublasCreate(&cublas_) == CUBLAS_STATUS_SUCCESS, "cublasCreate");
    check(cublasSetStream(cublas_, static_cast<cudaStream_t>(runtime::native_compute_stream())) ==
              CUBLAS_STATUS_SUCCESS,
          "cublasSetStream");
  }
  ~Arithmetic() { cublasDestroy(cublas_); }
  Arithmetic(const Arithmetic&) = delete;
  Arithmetic& operator=(const Arithmetic&) = delete;

  void forward(const float* weight) const {
    multiply(CUBLAS_OP_T, CUBLAS_OP_N, rows_, size_, weight, x_, 0, y_.data());
  }
  void gradient_of_weight(float* gradient, double beta) const {
    multiply(CUBLAS_OP_N, CUBLAS_OP_T, size_, rows_, x_.data(), y_, static_cast<float>(beta), gradient);
  }
  void gradient_of_input(const float* weight) const {
    multiply(CUBLAS_OP_N, CUBLAS_OP_N, rows_, size_, weight, y_, 0, x_.data());
  }

private:
  std::int64_t elements() const { return std::int64_t{size_} * rows_; }
  void multiply(cublasOperation_t op_a, cublasOperation_t op_b, int columns, int inner, const float* a, const Floats& b,
                float beta, float* c) const {
    const float one = 1;
    check(cublasSgemm(cublas_, op_a, op_b, size_, columns, inner, &one, a, size_, b.data(), size_, &beta, c, size_) ==
              CUBLAS_STATUS_SUCCESS,
          "cublasSgemm");
  }

  int size_, rows_;
  Floats x_, y_;
  cublasHandle_t cublas_ = nullptr;
};

/// The library's step.
class Step {
public:
  Step(const buffer::MeshPtr& mesh, int size, bool overlaps, const Arithmetic* arithmetic)
      : overlaps_(overlaps), arithmetic_(arithmetic) {
    fsdp::ContextConfig config;
    config.recipe = fsdp::Recipe::zero_3;
    if (!overlaps)
      config.prefetch = 0;
    context_ = fsdp::FsdpContext::create(mesh, config);
    for (int layer = 0; layer < num_layers; ++layer) {
      layers_.push_back(&context_->add_module("layer" + std::to_string(layer)));
      layers_.back()->add_parameter({"weight", {size, size}, DType::f32});
      layers_.back()->build();
    }
    context_->finalize();
  }

  void operator()() {
    context_->zero_grad();
    for (fsdp::FsdpModule* layer : layers_) {
      hook([&] { layer->pre_forward(); });
      if (arithmetic_ != nullptr)
        arithmetic_->forward(weight_of(*layer));
      hook([&] { layer->post_forward(); });
    }
    for (auto layer = layers_.rbegin(); layer != layers_.rend(); ++layer) {
      hook([&] { (*layer)->pre_backward(); });
      const auto gradient = (*layer)->gradient("weight", DType::f32);
      if (arithmetic_ != nullptr) {
        arithmetic_->gradient_of_weight(static_cast<float*>(gradient.data), gradient.beta);
        arithmetic_->gradient_of_input(weight_of(**layer));
      }
      hook([&] { (*layer)->post_backward(); });
    }
    context_->finish_backward();
  }

private:
  static const float* weight_of(const fsdp::FsdpModule& layer) {
    return static_cast<const float*>(layer.parameter("weight", DType::f32));
  }
  template <class Hook>
  void hook(Hook&& run) const {
    run();
    if (!overlaps_)
      wait_for_device();
  }

  bool overlaps_;
  const Arithmetic* arithmetic_;
  std::shared_ptr<fsdp::FsdpContext> context_;
  std::vector<fsdp::FsdpModule*> layers_;
};

void lonely_step(const Arithmetic& arithmetic, const Floats& weight, const Floats& gradient) {
  for (int layer = 0; layer < num_layers; ++layer)
    arithmetic.forward(weight.data());
  for (int layer = 0; layer < num_layers; ++layer) {
    arithmetic.gradient_of_weight(gradient.data(), 0);
    arithmetic.gradient_of_input(weight.data());
  }
}

double ms_of(const std::function<void()>& step) {
  wait_for_device();
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  step();
  wait_for_device();
  double own = 1e3 * (MPI_Wtime() - start), slowest = own;
  MPI_Allreduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

void compare(int size, int rows) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto mesh = mesh::DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {}, runtime::Device::cuda);
  const Arithmetic arithmetic(size, rows);
  const Floats weight(std::int64_t{size} * size), gradient(std::int64_t{size} * size);
  Step overlapped(mesh, size, true, &arithmetic), serial(mesh, size, false, &arithmetic),
      communication(mesh, size, false, nullptr);
  const std::array<std::function<void()>, 4> steps{[&] { overlapped(); }, [&] { serial(); },
                                                   [&] { lonely_step(arithmetic, weight, gradient); },
                                                   [&] { communication(); }};
  std::array<std::vector<double>, 4> ms;
  for (int round = 0; round < warm_up + rounds; ++round)
    for (std::size_t i = 0; i < steps.size(); ++i)
      if (const double found = ms_of(steps[i]); round >= warm_up)
        ms[i].push_back(found);
  if (rank == 0)
    std::printf("%d GPUs, %d layers of %d x %d, %d rows: with overlap %.2f ms, without %.2f, arithmetic alone %.2f, "
                "communication alone %.2f; exposed with overlap %.2f, without %.2f\n",
                ranks, num_layers, size, size, rows, median(ms[0]), median(ms[1]), median(ms[2]), median(ms[3]),
                median(ms[0]) - median(ms[2]), median(ms[1]) - median(ms[2]));
}

} // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    const runtime::Session session;
    compare(argc > 1 ? std::atoi(argv[1]) : 4096, argc > 2 ? std::atoi(argv[2]) : 4096);
  }
  MPI_Finalize();
  return 0;
}
