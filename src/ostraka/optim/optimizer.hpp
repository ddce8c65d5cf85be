// SPDX-License-Identifier: Apache-2.0
// Optimizers on NamedStates: one fused kernel per state on this rank's elements, padding included (zeros stay zeros).
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/named_state.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace ostraka::optim {

class OSTRAKA_API Optimizer {
public:
  virtual ~Optimizer() = default;

  /// Updates all main weights from their main gradients and refreshes the model weights, once each, in order. Gradients
  /// stay. All ranks call it. Throws before changing anything: INVALID_STATE naming a parameter without a gradient or a
  /// module whose weights are in use; in the first step OUT_OF_MEMORY on all ranks when one has no room for its state.
  /// Where ranks share memory it waits until all have let the weights go (TIME_OUT, FAILED).
  void step();

  double learning_rate() const { return learning_rate_; }
  /// Throws INVALID_ARGUMENT unless `learning_rate` is finite and >= 0.
  void set_learning_rate(double learning_rate);
  std::int64_t steps() const { return steps_; }

protected:
  Optimizer(std::vector<buffer::NamedState> states, double learning_rate);

  /// Creates the state buffers of one state that are not there yet; may throw.
  virtual void prepare(buffer::NamedState& state) = 0;
  /// Queues the kernel for one state; `step` counts from 1.
  virtual void update(buffer::NamedState& state, std::int64_t step, runtime::Stream& stream) = 0;

  /// The state buffer `name` of `state`, created as zeros when it is not there.
  static buffer::DBuffer& state_buffer(buffer::NamedState& state, const char* name);

private:
  void prepare_all();

  std::vector<buffer::NamedState> states_;
  double learning_rate_;
  std::int64_t steps_ = 0;
};

/// w -= rate * weight_decay * w;  w -= rate * (m / (1 - beta1^t)) / (sqrt(v / (1 - beta2^t)) + epsilon)
struct AdamWConfig {
  double learning_rate = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double epsilon = 1e-8;
  double weight_decay = 1e-2;
};

/// d = g + weight_decay * w;  with momentum: b = momentum * b + d, d = b;  w -= rate * d
struct SgdConfig {
  double learning_rate = 1e-3;
  double momentum = 0;
  double weight_decay = 0;
};

/// Throw INVALID_ARGUMENT naming the coefficient that is out of range.
OSTRAKA_API std::unique_ptr<Optimizer> make_adamw(std::vector<buffer::NamedState> states, const AdamWConfig& config);
OSTRAKA_API std::unique_ptr<Optimizer> make_sgd(std::vector<buffer::NamedState> states, const SgdConfig& config);

} // namespace ostraka::optim
