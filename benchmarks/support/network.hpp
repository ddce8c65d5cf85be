// SPDX-License-Identifier: Apache-2.0
// The arithmetic of the step benchmark, the same for every way to move weights and gradients: layers of one square f32
// matrix each, applied to a single row, so that a pass over the weights is all there is to do.
#pragma once

#include <ostraka/base/float16.hpp>

#include <cstdint>
#include <vector>

namespace ostraka::bench {

constexpr int num_layers = 8;
constexpr std::int64_t dim = 2048;
constexpr std::int64_t layer_elements = dim * dim;

class Network {
public:
  Network();

  /// row[layer + 1] = row[layer] * weight
  void forward(int layer, const float* weight);
  void forward(int layer, const bfloat16* weight);
  /// gradient = the outer product of row[layer] and the gradient of row[layer + 1]; then that of row[layer]. The loss
  /// is the sum of the last row.
  void backward(int layer, const float* weight, float* gradient);
  void backward(int layer, const bfloat16* weight, float* gradient);

private:
  template <class T>
  void go_forward(int layer, const T* weight);
  template <class T>
  void go_backward(int layer, const T* weight, float* gradient);

  std::vector<std::vector<float>> rows_;
  std::vector<float> row_gradient_, next_gradient_;
};

/// The weights of a layer, the same on every rank: random, of a size that keeps rows as they are.
std::vector<float> make_weight(int layer);

/// What the library's AdamW does to `count` elements, here for the run without it.
struct AdamSlice {
  std::vector<float> weight, gradient, mean, square;

  explicit AdamSlice(std::int64_t count);
  void update(int step);
};

} // namespace ostraka::bench
