// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/vectors.hpp>
#include <ostraka/base/with_type.hpp>
#include <ostraka/optim/impl/kernels.hpp>
#include <ostraka/optim/impl/main_type.hpp>
#include <ostraka/runtime/kokkos_execution.hpp>

#include <cmath>

namespace ostraka::optim::kernels {

namespace {

// Square roots and divisions by corrections are such that a first step with epsilon = 0 is exactly the rate.
template <class T>
struct AdamW {
  T rate, decay, beta1, gain1, correction1, beta2, gain2, root_correction2, epsilon;
  T* weight;
  const T* gradient;
  T* exp_avg;
  T* exp_avg_sq;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const T g = gradient[i];
    const T m = exp_avg[i] = beta1 * exp_avg[i] + gain1 * g;
    const T v = exp_avg_sq[i] = beta2 * exp_avg_sq[i] + gain2 * g * g;
    const T denominator = correction1 * (Kokkos::sqrt(v) / root_correction2 + epsilon);
    const T step = denominator > T(0) ? rate * (m / denominator) : T(0); // padding with epsilon = 0
    weight[i] = decay * weight[i] - step;
  }
};

template <class T>
struct Sgd {
  T rate, momentum, weight_decay;
  T* weight;
  const T* gradient;
  T* momentum_buffer;

  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    T direction = gradient[i] + weight_decay * weight[i];
    if (momentum_buffer != nullptr)
      direction = momentum_buffer[i] = momentum * momentum_buffer[i] + direction;
    weight[i] -= rate * direction;
  }
};

template <class Update>
KOKKOS_FUNCTION OSTRAKA_WIDEST void update_range(const Update& update, std::int64_t begin, std::int64_t end) {
  const Update own = update; // no store can change it
  OSTRAKA_INDEPENDENT
  for (std::int64_t i = begin; i < end; ++i)
    own(i);
}

// A block at a time: one element on devices, on hosts as many as the first cache has room for.
template <class Update>
struct UpdateBlocks {
  Update update;
  std::int64_t count, block;

  KOKKOS_FUNCTION std::int64_t begin(std::int64_t k) const { return k * block; }
  KOKKOS_FUNCTION std::int64_t end(std::int64_t k) const { return begin(k) + block < count ? begin(k) + block : count; }
  KOKKOS_FUNCTION void operator()(std::int64_t k) const { update_range(update, begin(k), end(k)); }
};

// Updates a block and then casts it, which leaves both loops to the compiler's vectors.
template <class Update, class Model>
struct UpdateAndCast {
  UpdateBlocks<Update> blocks;
  Model* model;

  KOKKOS_FUNCTION void operator()(std::int64_t k) const {
    blocks(k);
    for (std::int64_t i = blocks.begin(k); i < blocks.end(k); ++i)
      model[i] = static_cast<Model>(blocks.update.weight[i]);
  }
};

template <class Body>
void with_model_type(DType dtype, const char* operation, Body&& body) {
  with_floating(dtype, body, [&] {
    fail(Status::TYPE_MISMATCH, operation, ": expected model weights of a floating type, found ", name(dtype));
  });
}

template <class Update>
void run(const char* label, const runtime::Execution& execution, std::int64_t count, const Weights& weights,
         const Update& update) {
  const std::int64_t block = execution.device == runtime::Device::host ? 256 : 1;
  const UpdateBlocks<Update> blocks{update, count, block};
  const std::int64_t num_blocks = (count + block - 1) / block;
  if (weights.model == nullptr)
    return runtime::parallel_for(label, execution, num_blocks, blocks);
  with_model_type(weights.model_dtype, label, [&](auto model) {
    using Model = decltype(model);
    runtime::parallel_for(label, execution, num_blocks,
                          UpdateAndCast<Update, Model>{blocks, static_cast<Model*>(weights.model)});
  });
}

} // namespace

void adamw(const runtime::Execution& execution, const AdamWCoefficients& c, DType dtype, std::int64_t count,
           const Weights& weights, const void* gradient, void* exp_avg, void* exp_avg_sq) {
  with_main_type(dtype, "adamw", [&](auto value) {
    using T = decltype(value);
    const AdamW<T> update{T(c.rate),
                          T(c.decay),
                          T(c.beta1),
                          T(1 - c.beta1),
                          T(c.correction1),
                          T(c.beta2),
                          T(1 - c.beta2),
                          std::sqrt(T(c.correction2)),
                          T(c.epsilon),
                          static_cast<T*>(weights.main),
                          static_cast<const T*>(gradient),
                          static_cast<T*>(exp_avg),
                          static_cast<T*>(exp_avg_sq)};
    run("ostraka::adamw", execution, count, weights, update);
  });
}

void sgd(const runtime::Execution& execution, const SgdCoefficients& c, DType dtype, std::int64_t count,
         const Weights& weights, const void* gradient, void* momentum_buffer) {
  with_main_type(dtype, "sgd", [&](auto value) {
    using T = decltype(value);
    const Sgd<T> update{T(c.rate),
                        T(c.momentum),
                        T(c.weight_decay),
                        static_cast<T*>(weights.main),
                        static_cast<const T*>(gradient),
                        static_cast<T*>(momentum_buffer)};
    run("ostraka::sgd", execution, count, weights, update);
  });
}

} // namespace ostraka::optim::kernels
