// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/optim/impl/kernels.hpp>
#include <ostraka/optim/optimizer.hpp>

#include <cmath>

namespace ostraka::optim {

namespace {

using buffer::DBuffer;
using buffer::NamedState;

void require_range(const char* optimizer, const char* coefficient, double value, double below) {
  expect(std::isfinite(value) && value >= 0 && value < below, Status::INVALID_ARGUMENT, optimizer,
         ": expected 0 <= ", coefficient, " < ", below, ", found ", value);
}

class AdamW final : public Optimizer {
public:
  AdamW(std::vector<NamedState> states, const AdamWConfig& config)
      : Optimizer(std::move(states), config.learning_rate), config_(config) {
    require_range("adamw", "beta1", config.beta1, 1);
    require_range("adamw", "beta2", config.beta2, 1);
    require_range("adamw", "epsilon", config.epsilon, HUGE_VAL);
    require_range("adamw", "weight_decay", config.weight_decay, HUGE_VAL);
  }

protected:
  void prepare(NamedState& state) override {
    state_buffer(state, "exp_avg");
    state_buffer(state, "exp_avg_sq");
  }

  void update(NamedState& state, std::int64_t step, runtime::Stream& stream) override {
    const auto t = static_cast<double>(step);
    const kernels::AdamWCoefficients coefficients{1 - learning_rate() * config_.weight_decay,
                                                  config_.beta1,
                                                  config_.beta2,
                                                  learning_rate() / (1 - std::pow(config_.beta1, t)),
                                                  std::sqrt(1 - std::pow(config_.beta2, t)),
                                                  config_.epsilon};
    const DBuffer weight = state.main_weight, gradient = state.main_gradient;
    const DBuffer exp_avg = state_buffer(state, "exp_avg"), exp_avg_sq = state_buffer(state, "exp_avg_sq");
    stream.launch("adamw", [=](const runtime::Execution& execution) {
      kernels::adamw(execution, coefficients, weight.dtype(), weight.numel(), weight.data(), gradient.data(),
                     exp_avg.data(), exp_avg_sq.data());
    });
  }

private:
  AdamWConfig config_;
};

class Sgd final : public Optimizer {
public:
  Sgd(std::vector<NamedState> states, const SgdConfig& config)
      : Optimizer(std::move(states), config.learning_rate), config_(config) {
    require_range("sgd", "momentum", config.momentum, 1);
    require_range("sgd", "weight_decay", config.weight_decay, HUGE_VAL);
  }

protected:
  void prepare(NamedState& state) override {
    if (config_.momentum > 0)
      state_buffer(state, "momentum_buffer");
  }

  void update(NamedState& state, std::int64_t, runtime::Stream& stream) override {
    const DBuffer weight = state.main_weight, gradient = state.main_gradient;
    const DBuffer momentum = config_.momentum > 0 ? state_buffer(state, "momentum_buffer") : DBuffer();
    stream.launch("sgd", [=, rate = learning_rate(), config = config_](const runtime::Execution& execution) {
      kernels::sgd(execution, rate, config.momentum, config.weight_decay, weight.dtype(), weight.numel(), weight.data(),
                   gradient.data(), momentum.is_valid() ? momentum.data() : nullptr);
    });
  }

private:
  SgdConfig config_;
};

} // namespace

Optimizer::Optimizer(std::vector<NamedState> states, double learning_rate) : states_(std::move(states)) {
  set_learning_rate(learning_rate);
}

void Optimizer::set_learning_rate(double learning_rate) {
  require_range("optimizer", "learning_rate", learning_rate, HUGE_VAL);
  learning_rate_ = learning_rate;
}

void Optimizer::step() {
  for (const NamedState& state : states_) {
    state.check_update();
    expect(state.has_gradient(), Status::INVALID_STATE, "optimizer step: parameter '", state.tensor_names.front(),
           "' has no complete gradient (", steps_,
           " steps done); call finish_backward after the backward pass of the last "
           "micro-batch (set_last_microbatch(true)) first");
  }
  prepare_all(); // before any weight changes
  for (const NamedState& state : states_)
    state.before_update();
  ++steps_;
  const auto stream = runtime::make_host_compute_stream();
  for (NamedState& state : states_) {
    update(state, steps_, *stream);
    state.refresh();
  }
}

void Optimizer::prepare_all() {
  if (steps_ > 0 || states_.empty())
    return;
  comm::together(*states_.front().main_weight.mesh()->communicators().all, [&] { // all ranks have room, or none goes on
    for (NamedState& state : states_)
      prepare(state);
  });
}

DBuffer& Optimizer::state_buffer(NamedState& state, const char* name) {
  const auto found = state.state.find(name);
  if (found != state.state.end())
    return found->second;
  const DBuffer& like = state.main_gradient; // weights may stand in memory that others share
  return state.state[name] = DBuffer(like.mesh(), like.placements(), like.layout(), like.dtype(),
                                     {like.storage()->arena(), memory::Kind::optimizer_state});
}

std::unique_ptr<Optimizer> make_adamw(std::vector<NamedState> states, const AdamWConfig& config) {
  return std::make_unique<AdamW>(std::move(states), config);
}

std::unique_ptr<Optimizer> make_sgd(std::vector<NamedState> states, const SgdConfig& config) {
  return std::make_unique<Sgd>(std::move(states), config);
}

} // namespace ostraka::optim
