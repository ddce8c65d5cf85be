// SPDX-License-Identifier: Apache-2.0
// Plain arithmetic of a dense network, a whole batch in one process: what sharded training is compared with. Knows
// nothing of the library.
#pragma once

#include <cmath>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace ostraka::fsdp::test {

/// y = tanh(W x + b); the last visit of a network has no tanh. Weights are (out, in), rows of data are contiguous.
struct Dense {
  int in;
  int out;
};

template <class T>
std::vector<T> dense_forward(const Dense& layer, bool bends, const T* weight, const T* bias, const std::vector<T>& x) {
  const int rows = static_cast<int>(x.size()) / layer.in;
  std::vector<T> y(static_cast<std::size_t>(rows) * layer.out);
  for (int r = 0; r < rows; ++r)
    for (int o = 0; o < layer.out; ++o) {
      T sum = bias[o];
      for (int i = 0; i < layer.in; ++i)
        sum += weight[o * layer.in + i] * x[r * layer.in + i];
      y[r * layer.out + o] = bends ? std::tanh(sum) : sum;
    }
  return y;
}

/// Turns the gradient of y into that of W x + b.
template <class T>
void dense_unbend(bool bends, const std::vector<T>& y, std::vector<T>& dy) {
  for (std::size_t i = 0; bends && i < dy.size(); ++i)
    dy[i] *= T(1) - y[i] * y[i];
}

/// gradient = beta * gradient + contribution; with beta = 0 the old contents are not read.
template <class T>
void contribute(T* gradient, double beta, T contribution) {
  *gradient = beta == 0 ? contribution : static_cast<T>(beta) * *gradient + contribution;
}

template <class T>
void dense_weight_gradient(const Dense& layer, const std::vector<T>& x, const std::vector<T>& dy, double beta,
                           T* weight) {
  const int rows = static_cast<int>(x.size()) / layer.in;
  for (int o = 0; o < layer.out; ++o)
    for (int i = 0; i < layer.in; ++i) {
      T sum = 0;
      for (int r = 0; r < rows; ++r)
        sum += dy[r * layer.out + o] * x[r * layer.in + i];
      contribute(&weight[o * layer.in + i], beta, sum);
    }
}

template <class T>
void dense_bias_gradient(const Dense& layer, const std::vector<T>& dy, double beta, T* bias) {
  const int rows = static_cast<int>(dy.size()) / layer.out;
  for (int o = 0; o < layer.out; ++o) {
    T sum = 0;
    for (int r = 0; r < rows; ++r)
      sum += dy[r * layer.out + o];
    contribute(&bias[o], beta, sum);
  }
}

template <class T>
std::vector<T> dense_input_gradient(const Dense& layer, const T* weight, const std::vector<T>& dy) {
  const int rows = static_cast<int>(dy.size()) / layer.out;
  std::vector<T> dx(static_cast<std::size_t>(rows) * layer.in, T(0));
  for (int r = 0; r < rows; ++r)
    for (int o = 0; o < layer.out; ++o)
      for (int i = 0; i < layer.in; ++i)
        dx[r * layer.in + i] += dy[r * layer.out + o] * weight[o * layer.in + i];
  return dx;
}

/// Modules, and the order in which a forward pass visits them (repeats share weights). Backward is the reverse.
struct Architecture {
  std::vector<Dense> modules;
  std::vector<int> visits;
};

inline Architecture mlp(const std::vector<int>& widths) {
  Architecture net;
  for (std::size_t l = 0; l + 1 < widths.size(); ++l) {
    net.modules.push_back({widths[l], widths[l + 1]});
    net.visits.push_back(static_cast<int>(l));
  }
  return net;
}

/// Per parameter: weight 0, bias 0, weight 1, ...
using Values = std::vector<std::vector<double>>;

/// Multiples of 1/256 below 1 in size: exact in every type.
inline double initial_value(int parameter, int element) { return ((parameter * 37 + element * 29) % 101 - 50) / 256.0; }

inline Values initial_values(const Architecture& net) {
  Values values;
  for (const Dense& layer : net.modules)
    for (const int count : {layer.in * layer.out, layer.out}) {
      std::vector<double> parameter(count);
      for (int i = 0; i < count; ++i)
        parameter[i] = initial_value(static_cast<int>(values.size()), i);
      values.push_back(std::move(parameter));
    }
  return values;
}

/// Column `c` of row `r` of the data; inputs and targets are multiples of 1/8.
inline double input_value(int r, int c) { return ((r * 13 + c * 7) % 17 - 8) / 8.0; }
inline double target_value(int r, int c) { return ((r * 5 + c * 11) % 13 - 6) / 8.0; }

struct RowRange {
  int begin;
  int end;
  int size() const { return end - begin; }
};

template <class T>
std::vector<T> data_rows(RowRange rows, int columns, double (*value)(int, int)) {
  std::vector<T> data;
  for (int r = rows.begin; r < rows.end; ++r)
    for (int c = 0; c < columns; ++c)
      data.push_back(static_cast<T>(value(r, c)));
  return data;
}

/// The gradient of factor * sum over rows of |y - target|^2 / 2, added to `gradients`.
inline void add_gradients(const Architecture& net, const Values& values, RowRange rows, double factor,
                          Values& gradients) {
  std::vector<std::vector<double>> x{data_rows<double>(rows, net.modules[net.visits.front()].in, input_value)};
  const int last = static_cast<int>(net.visits.size()) - 1;
  for (int v = 0; v <= last; ++v) {
    const int m = net.visits[v];
    x.push_back(dense_forward(net.modules[m], v < last, values[2 * m].data(), values[2 * m + 1].data(), x[v]));
  }
  const auto target = data_rows<double>(rows, net.modules[net.visits.back()].out, target_value);
  std::vector<double> d(target.size());
  for (std::size_t i = 0; i < d.size(); ++i)
    d[i] = factor * (x[last + 1][i] - target[i]);
  for (int v = last; v >= 0; --v) {
    const int m = net.visits[v];
    dense_unbend(v < last, x[v + 1], d);
    dense_weight_gradient(net.modules[m], x[v], d, 1, gradients[2 * m].data());
    dense_bias_gradient(net.modules[m], d, 1, gradients[2 * m + 1].data());
    d = dense_input_gradient(net.modules[m], values[2 * m].data(), d);
  }
}

inline Values zeros_like(const Values& values) {
  Values zeros = values;
  for (auto& parameter : zeros)
    parameter.assign(parameter.size(), 0.0);
  return zeros;
}

/// Textbook optimizers, element by element.
struct PlainOptimizer {
  bool is_adamw = false;
  double rate = 0.05;
  double momentum = 0.9; // SGD
  double weight_decay = 0.01;
  double beta1 = 0.9, beta2 = 0.99, epsilon = 1e-6; // AdamW
  int steps = 0;
  Values first, second;

  void step(Values& weights, const Values& gradients) {
    if (steps++ == 0)
      first = second = zeros_like(weights);
    for (std::size_t p = 0; p < weights.size(); ++p)
      for (std::size_t i = 0; i < weights[p].size(); ++i)
        is_adamw ? adamw(weights[p][i], gradients[p][i], first[p][i], second[p][i])
                 : sgd(weights[p][i], gradients[p][i], first[p][i]);
  }

private:
  void adamw(double& w, double g, double& m, double& v) const {
    m = beta1 * m + (1 - beta1) * g;
    v = beta2 * v + (1 - beta2) * g * g;
    const double m_hat = m / (1 - std::pow(beta1, steps)), v_hat = v / (1 - std::pow(beta2, steps));
    w -= rate * weight_decay * w;
    w -= rate * m_hat / (std::sqrt(v_hat) + epsilon);
  }
  void sgd(double& w, double g, double& b) const {
    b = momentum * b + (g + weight_decay * w);
    w -= rate * b;
  }
};

} // namespace ostraka::fsdp::test
