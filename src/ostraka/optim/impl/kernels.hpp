// SPDX-License-Identifier: Apache-2.0
// The fused update kernels, on contiguous memory of `dtype` f64 or f32. Called from Stream::launch bodies only. All map
// zeros to zeros.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>

namespace ostraka::optim::kernels {

/// The weights, and where they go in a second floating type, rounded as buffer::cast does; `model` null: nowhere.
struct Weights {
  void* main;
  void* model;
  DType model_dtype;
};

struct AdamWCoefficients {
  double rate;
  double decay; ///< 1 - rate * weight_decay
  double beta1;
  double beta2;
  double correction1; ///< 1 - beta1^t
  double correction2; ///< 1 - beta2^t
  double epsilon;
};

void adamw(const runtime::Execution& execution, const AdamWCoefficients& coefficients, DType dtype, std::int64_t count,
           const Weights& weights, const void* gradient, void* exp_avg, void* exp_avg_sq);

struct SgdCoefficients {
  double rate;
  double momentum;
  double weight_decay;
};

/// `momentum_buffer` null: plain steps.
void sgd(const runtime::Execution& execution, const SgdCoefficients& coefficients, DType dtype, std::int64_t count,
         const Weights& weights, const void* gradient, void* momentum_buffer);

} // namespace ostraka::optim::kernels
