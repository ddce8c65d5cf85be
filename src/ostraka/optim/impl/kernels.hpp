// SPDX-License-Identifier: Apache-2.0
// The fused update kernels, on contiguous memory of `dtype` f64 or f32. Called from Stream::launch bodies only.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>

namespace ostraka::optim::kernels {

struct AdamWCoefficients {
  double decay; ///< 1 - rate * weight_decay
  double beta1;
  double beta2;
  double step_size;   ///< rate / (1 - beta1^t)
  double correction2; ///< sqrt(1 - beta2^t)
  double epsilon;
};

void adamw(const runtime::Execution& execution, const AdamWCoefficients& coefficients, DType dtype, std::int64_t count,
           void* weight, const void* gradient, void* exp_avg, void* exp_avg_sq);

/// `momentum_buffer` null: plain steps.
void sgd(const runtime::Execution& execution, double learning_rate, double momentum, double weight_decay, DType dtype,
         std::int64_t count, void* weight, const void* gradient, void* momentum_buffer);

} // namespace ostraka::optim::kernels
