// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/optim/impl/kernels.hpp>
#include <ostraka/runtime/kokkos_execution.hpp>

namespace ostraka::optim::kernels {

namespace {

template <class T>
struct AdamW {
  T decay, beta1, gain1, beta2, gain2, step_size, correction2, epsilon;
  T* weight;
  const T* gradient;
  T* exp_avg;
  T* exp_avg_sq;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const T g = gradient[i];
    const T m = exp_avg[i] = beta1 * exp_avg[i] + gain1 * g;
    const T v = exp_avg_sq[i] = beta2 * exp_avg_sq[i] + gain2 * g * g;
    const T denominator = Kokkos::sqrt(v) / correction2 + epsilon;
    const T step = denominator > T(0) ? step_size * m / denominator : T(0); // padding with epsilon = 0
    weight[i] = decay * weight[i] - step;
  }
};

template <class T>
struct Sgd {
  T learning_rate, momentum, weight_decay;
  T* weight;
  const T* gradient;
  T* momentum_buffer;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    T direction = gradient[i] + weight_decay * weight[i];
    if (momentum_buffer != nullptr)
      direction = momentum_buffer[i] = momentum * momentum_buffer[i] + direction;
    weight[i] -= learning_rate * direction;
  }
};

template <class Body>
void with_main_type(DType dtype, const char* operation, Body&& body) {
  if (dtype == DType::f64)
    return body(double{});
  expect(dtype == DType::f32, Status::TYPE_MISMATCH, operation, ": expected main weights of f64 or f32, found ",
         name(dtype));
  body(float{});
}

} // namespace

void adamw(const runtime::Execution& execution, const AdamWCoefficients& c, DType dtype, std::int64_t count,
           void* weight, const void* gradient, void* exp_avg, void* exp_avg_sq) {
  with_main_type(dtype, "adamw", [&](auto value) {
    using T = decltype(value);
    const AdamW<T> functor{T(c.decay),
                           T(c.beta1),
                           T(1 - c.beta1),
                           T(c.beta2),
                           T(1 - c.beta2),
                           T(c.step_size),
                           T(c.correction2),
                           T(c.epsilon),
                           static_cast<T*>(weight),
                           static_cast<const T*>(gradient),
                           static_cast<T*>(exp_avg),
                           static_cast<T*>(exp_avg_sq)};
    runtime::parallel_for("ostraka::adamw", execution, count, functor);
  });
}

void sgd(const runtime::Execution& execution, double learning_rate, double momentum, double weight_decay, DType dtype,
         std::int64_t count, void* weight, const void* gradient, void* momentum_buffer) {
  with_main_type(dtype, "sgd", [&](auto value) {
    using T = decltype(value);
    const Sgd<T> functor{T(learning_rate),
                         T(momentum),
                         T(weight_decay),
                         static_cast<T*>(weight),
                         static_cast<const T*>(gradient),
                         static_cast<T*>(momentum_buffer)};
    runtime::parallel_for("ostraka::sgd", execution, count, functor);
  });
}

} // namespace ostraka::optim::kernels
