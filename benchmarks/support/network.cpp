// SPDX-License-Identifier: Apache-2.0
#include "network.hpp"

#include <ostraka/comm/impl/vectors.hpp>
#include <ostraka/optim/optimizer.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

namespace ostraka::bench {

namespace {

constexpr std::int64_t lanes = 64; // sums side by side, so that they are vectors without reordering any

// Each body is inlined into one function per set of instructions.
#define OSTRAKA_BODY [[gnu::always_inline]] inline

OSTRAKA_BODY float number(float weight) { return weight; }
OSTRAKA_BODY float number(bfloat16 weight) {
  return __builtin_bit_cast(float, static_cast<std::uint32_t>(weight.bits) << 16);
}

// Four rows of the matrix at a time.
template <class T>
OSTRAKA_BODY void multiply_by(float* __restrict out, const float* __restrict row, const T* __restrict weight) {
  std::fill_n(out, dim, 0.0f);
  for (std::int64_t i = 0; i < dim; i += 4) {
    const T* w = weight + i * dim;
    for (std::int64_t j = 0; j < dim; ++j)
      out[j] += row[i] * number(w[j]) + row[i + 1] * number(w[j + dim]) + row[i + 2] * number(w[j + 2 * dim]) +
                row[i + 3] * number(w[j + 3 * dim]);
  }
}

OSTRAKA_WIDEST void multiply(float* out, const float* row, const float* weight) { multiply_by(out, row, weight); }
OSTRAKA_WIDEST void multiply(float* out, const float* row, const bfloat16* weight) { multiply_by(out, row, weight); }

// A row of the outer product, and the product of a row of weights with the gradient.
template <class T>
OSTRAKA_BODY float back_through_row(float* __restrict out, float x, const T* __restrict weight,
                                    const float* __restrict gradient) {
  std::array<float, lanes> sums{};
  for (std::int64_t j = 0; j < dim; j += lanes)
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      out[j + lane] = x * gradient[j + lane];
      sums[lane] += number(weight[j + lane]) * gradient[j + lane];
    }
  float total = 0;
  for (const float sum : sums)
    total += sum;
  return total;
}

OSTRAKA_WIDEST float backward_row(float* out, float x, const float* weight, const float* gradient) {
  return back_through_row(out, x, weight, gradient);
}
OSTRAKA_WIDEST float backward_row(float* out, float x, const bfloat16* weight, const float* gradient) {
  return back_through_row(out, x, weight, gradient);
}

OSTRAKA_WIDEST void update(float* __restrict w, const float* __restrict g, float* __restrict m, float* __restrict v,
                           std::int64_t count, const optim::AdamWConfig& config, int step) {
  const auto rate = static_cast<float>(config.learning_rate), decay = static_cast<float>(config.weight_decay),
             beta1 = static_cast<float>(config.beta1), beta2 = static_cast<float>(config.beta2),
             epsilon = static_cast<float>(config.epsilon);
  const float correction1 = 1 - std::pow(beta1, static_cast<float>(step)),
              correction2 = 1 - std::pow(beta2, static_cast<float>(step));
  for (std::int64_t i = 0; i < count; ++i) {
    m[i] = beta1 * m[i] + (1 - beta1) * g[i];
    v[i] = beta2 * v[i] + (1 - beta2) * g[i] * g[i];
    w[i] -= rate * (decay * w[i] + m[i] / correction1 / (std::sqrt(v[i] / correction2) + epsilon));
  }
}

} // namespace

Network::Network() : row_gradient_(dim), next_gradient_(dim) {
  rows_.assign(num_layers + 1, std::vector<float>(dim));
  for (std::int64_t i = 0; i < dim; ++i)
    rows_[0][static_cast<std::size_t>(i)] = static_cast<float>(i % 7) / 4 - 0.75f;
}

void Network::forward(int layer, const float* weight) { go_forward(layer, weight); }
void Network::forward(int layer, const bfloat16* weight) { go_forward(layer, weight); }
void Network::backward(int layer, const float* weight, float* gradient) { go_backward(layer, weight, gradient); }
void Network::backward(int layer, const bfloat16* weight, float* gradient) { go_backward(layer, weight, gradient); }

template <class T>
void Network::go_forward(int layer, const T* weight) {
  multiply(rows_[static_cast<std::size_t>(layer + 1)].data(), rows_[static_cast<std::size_t>(layer)].data(), weight);
}

template <class T>
void Network::go_backward(int layer, const T* weight, float* gradient) {
  if (layer == num_layers - 1)
    std::fill(row_gradient_.begin(), row_gradient_.end(), 1.0f);
  const std::vector<float>& row = rows_[static_cast<std::size_t>(layer)];
  for (std::int64_t i = 0; i < dim; ++i)
    next_gradient_[static_cast<std::size_t>(i)] =
        backward_row(gradient + i * dim, row[static_cast<std::size_t>(i)], weight + i * dim, row_gradient_.data());
  std::swap(row_gradient_, next_gradient_);
}

std::vector<float> make_weight(int layer) {
  std::minstd_rand random(static_cast<unsigned>(layer + 1));
  std::uniform_real_distribution<float> uniform(-1, 1);
  const float size = std::sqrt(3.0f / static_cast<float>(dim));
  std::vector<float> weight(layer_elements);
  std::generate(weight.begin(), weight.end(), [&] { return size * uniform(random); });
  return weight;
}

AdamSlice::AdamSlice(std::int64_t count)
    : weight(static_cast<std::size_t>(count), 0.01f), gradient(weight.size(), 0.001f), mean(weight.size()),
      square(weight.size()) {}

void AdamSlice::update(int step) {
  bench::update(weight.data(), gradient.data(), mean.data(), square.data(), static_cast<std::int64_t>(weight.size()),
                {}, step);
}

} // namespace ostraka::bench
