// SPDX-License-Identifier: Apache-2.0
// Optimizers on NamedStates: fused kernels on this rank's elements, padding included (zeros stay zeros). All ranks make
// the same calls with the same arguments.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/buffer/named_state.hpp>
#include <ostraka/optim/gradients.hpp>
#include <ostraka/optim/groups.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::optim {

class Groups;
struct Run;

class OSTRAKA_API Optimizer {
public:
  virtual ~Optimizer();

  /// Updates all main weights from their main gradients and the model weights with them, once each, in order. Gradients
  /// stay. All ranks call it. On devices it queues that on the compute stream. Throws before changing anything:
  /// INVALID_STATE naming a parameter without a gradient or a module whose weights are in use, or when no gradient is
  /// newer than the last step of this optimizer; in the first step RANKS_DISAGREE when ranks have different
  /// hyperparameters, and OUT_OF_MEMORY on all ranks when one has no room for its state. Where ranks share memory it
  /// waits until all have let the weights go (TIME_OUT, FAILED).
  void step();

  double learning_rate() const { return learning_rate_; }
  /// Throws INVALID_ARGUMENT unless `learning_rate` is finite and >= 0.
  void set_learning_rate(double learning_rate);
  /// The steps so far, which the corrections of AdamW depend on.
  std::int64_t steps() const { return steps_; }
  /// For a run that is continued; INVALID_ARGUMENT unless >= 0.
  void set_steps(std::int64_t steps);

  /// What it updates, with the state of every tensor, which is created as in the first step: for a checkpoint.
  /// Collective, once; OUT_OF_MEMORY and RANKS_DISAGREE as step().
  std::vector<buffer::NamedState> named_states();

  /// From now on weights are updated while the gradients of the last micro-batch are reduced, block by block as results
  /// arrive, and step() only completes that; so hyperparameters are set before. Where a module's gradient came in
  /// several micro-batches, in another type than its main weights or with a divisor, step() does it all as before.
  /// Between the backward pass and step() weights cannot be used, and main gradients are gone, norms and clipping with
  /// them. A failure in the last micro-batch of a step ends the context, since weights are then between two steps.
  /// Collective: prepares as the first step does. INVALID_STATE where another optimizer does this already. Destroying
  /// the optimizer between a backward pass and step() loses what was not reduced yet.
  void fuse_with_reduction();

  /// From the next step on `options` hold for the parameters "module.parameter" that are called `pattern`, in which `*`
  /// stands for any characters and `?` for one. Later calls win. Local. INVALID_ARGUMENT for options out of range and
  /// for a pattern that fits nothing, naming what there is.
  void set_group(const std::string& pattern, const GroupOptions& options);

  /// Of the gradients of this optimizer, as in gradients.hpp.
  double gradient_norm(Norm norm = Norm::l2) const { return optim::gradient_norm(states_, norm); }
  double clip_gradients(double max_norm, Norm norm = Norm::l2) {
    return optim::clip_gradients(states_, max_norm, norm);
  }
  std::optional<NonFinite> find_non_finite() const { return optim::find_non_finite(states_); }
  void check_finite() const { optim::check_finite(states_); }
  void scale_gradients(double factor) { optim::scale_gradients(states_, factor); }

protected:
  Optimizer(std::vector<buffer::NamedState> states, double learning_rate, double weight_decay);

  /// Creates the state buffers of one state that are not there yet; may throw.
  virtual void prepare(buffer::NamedState& state) = 0;
  /// Updates the elements of a run; `gradient` points to the first one's.
  using Update = std::function<void(const runtime::Execution& execution, const Run& run, const void* gradient)>;
  /// What updates one state; `step` counts from 1.
  virtual Update update_of(buffer::NamedState& state, std::int64_t step) = 0;
  virtual const char* name() const = 0;
  /// Of the coefficients that ranks must agree on.
  virtual std::int64_t hash() const = 0;

  /// The state buffer `name` of `state`, created as zeros when it is not there.
  static buffer::DBuffer& state_buffer(buffer::NamedState& state, const char* name);

private:
  void require_new_gradient() const;
  void update(std::size_t state, runtime::Stream& stream);
  void update_part(std::size_t state, const runtime::Execution& execution, const layout::Range& part,
                   const void* gradient);
  void prepare_all();

  std::vector<buffer::NamedState> states_;
  std::unique_ptr<Groups> groups_;
  double learning_rate_;
  std::int64_t steps_ = 0;
  bool is_prepared_ = false;
  std::vector<Update> updates_;             ///< [state] of the step that reductions do now
  std::shared_ptr<Optimizer*> fused_;       ///< for reductions in flight: this, as long as it lives
  std::vector<std::int64_t> used_versions_; ///< of the gradients, in the last step
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
