// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/hash.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/optim/impl/groups.hpp>
#include <ostraka/optim/impl/hand_over.hpp>
#include <ostraka/optim/impl/kernels.hpp>
#include <ostraka/optim/impl/require_gradient.hpp>
#include <ostraka/optim/optimizer.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <cmath>

namespace ostraka::optim {

namespace {

using buffer::DBuffer;
using buffer::NamedState;

void require_range(const char* optimizer, const char* coefficient, double value, double below) {
  expect(std::isfinite(value) && value >= 0 && value < below, Status::INVALID_ARGUMENT, optimizer,
         ": expected 0 <= ", coefficient, " < ", below, ", found ", value);
}

bool was_updated(const NamedState& state) { return state.is_updated && state.is_updated(); }

constexpr std::int64_t unknown_version = -1;

std::int64_t version_of(const NamedState& state) {
  return state.gradient_version ? state.gradient_version() : unknown_version;
}

// What a kernel takes of a state.
struct Operands {
  DBuffer weight, model;
  DType dtype = weight.dtype();

  explicit Operands(const NamedState& state) : weight(state.main_weight), model(state.model_weight) {}

  static void* begin(const DBuffer& buffer, const Run& run) {
    return static_cast<std::byte*>(buffer.data()) + run.local.begin * size_of(buffer.dtype());
  }
  kernels::Weights weights(const Run& run) const {
    if (!model.is_valid())
      return {begin(weight, run), nullptr, dtype};
    return {begin(weight, run), begin(model, run), model.dtype()};
  }
};

class AdamW final : public Optimizer {
public:
  AdamW(std::vector<NamedState> states, const AdamWConfig& config)
      : Optimizer(std::move(states), config.learning_rate, config.weight_decay), config_(config) {
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

  Update update_of(NamedState& state, std::int64_t step) override {
    const auto t = static_cast<double>(step);
    const DBuffer exp_avg = state_buffer(state, "exp_avg"), exp_avg_sq = state_buffer(state, "exp_avg_sq");
    kernels::AdamWCoefficients c{0,
                                 0,
                                 config_.beta1,
                                 config_.beta2,
                                 1 - std::pow(config_.beta1, t),
                                 1 - std::pow(config_.beta2, t),
                                 config_.epsilon};
    return [=, operands = Operands(state), rate = learning_rate()](const auto& execution, const Run& run,
                                                                   const void* gradient) mutable {
      c.rate = rate * run.values.learning_rate_factor;
      c.decay = 1 - c.rate * run.values.weight_decay;
      kernels::adamw(execution, c, operands.dtype, run.local.size(), operands.weights(run), gradient,
                     Operands::begin(exp_avg, run), Operands::begin(exp_avg_sq, run));
    };
  }

  const char* name() const override { return "adamw"; }
  std::int64_t hash() const override {
    return Hash().add(config_.beta1).add(config_.beta2).add(config_.epsilon).value();
  }

private:
  AdamWConfig config_;
};

class Sgd final : public Optimizer {
public:
  Sgd(std::vector<NamedState> states, const SgdConfig& config)
      : Optimizer(std::move(states), config.learning_rate, config.weight_decay), config_(config) {
    require_range("sgd", "momentum", config.momentum, 1);
    require_range("sgd", "weight_decay", config.weight_decay, HUGE_VAL);
  }

protected:
  void prepare(NamedState& state) override {
    if (config_.momentum > 0)
      state_buffer(state, "momentum_buffer");
  }

  Update update_of(NamedState& state, std::int64_t) override {
    const DBuffer momentum = config_.momentum > 0 ? state_buffer(state, "momentum_buffer") : DBuffer();
    kernels::SgdCoefficients c{0, config_.momentum, 0};
    return [=, operands = Operands(state), rate = learning_rate()](const auto& execution, const Run& run,
                                                                   const void* gradient) mutable {
      c.rate = rate * run.values.learning_rate_factor;
      c.weight_decay = run.values.weight_decay;
      kernels::sgd(execution, c, operands.dtype, run.local.size(), operands.weights(run), gradient,
                   momentum.is_valid() ? Operands::begin(momentum, run) : nullptr);
    };
  }

  const char* name() const override { return "sgd"; }
  std::int64_t hash() const override { return Hash().add(config_.momentum).value(); }

private:
  SgdConfig config_;
};

} // namespace

Optimizer::Optimizer(std::vector<NamedState> states, double learning_rate, double weight_decay)
    : states_(std::move(states)), groups_(std::make_unique<Groups>(states_, weight_decay)) {
  set_learning_rate(learning_rate);
  for (const NamedState& state : states_) {
    expect(state.main_weight.dtype() == DType::f64 || state.main_weight.dtype() == DType::f32, Status::TYPE_MISMATCH,
           "optimizer: expected main weights of f64 or f32, found ", ostraka::name(state.main_weight.dtype()), " for '",
           state.tensor_names.front(), "'");
  }
}

Optimizer::~Optimizer() {
  if (fused_ == nullptr)
    return;
  *fused_ = nullptr;
  for (const NamedState& state : states_)
    state.update_while_reducing(nullptr);
}

void Optimizer::set_learning_rate(double learning_rate) {
  require_range("optimizer", "learning_rate", learning_rate, HUGE_VAL);
  learning_rate_ = learning_rate;
}

void Optimizer::set_steps(std::int64_t steps) {
  expect(steps >= 0, Status::INVALID_ARGUMENT, "optimizer: expected steps >= 0, found ", steps);
  steps_ = steps;
}

std::vector<NamedState> Optimizer::named_states() {
  prepare_all();
  return states_;
}

void Optimizer::set_group(const std::string& pattern, const GroupOptions& options) {
  groups_->set(states_, pattern, options);
}

void Optimizer::step() {
  const std::string operation = "optimizer step (after " + std::to_string(steps_) + " steps)";
  for (const NamedState& state : states_) {
    state.check_update();
    fused_ != nullptr ? require_gradient(state, operation) : require_kept_gradient(state, operation);
  }
  require_new_gradient();
  prepare_all(); // before any weight changes
  for (const NamedState& state : states_)
    state.before_update();
  ++steps_;
  used_versions_.clear();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    NamedState& state = states_[i];
    if (!was_updated(state))
      update(i, *runtime::compute_stream(state.main_weight.storage()->device()));
    if (state.model_weight.is_valid())
      state.publish();
    else
      state.refresh();
    used_versions_.push_back(version_of(state));
  }
  for (const NamedState& state : states_)
    if (state.after_update)
      state.after_update();
  hand_over(states_);
}

void Optimizer::update(std::size_t state, runtime::Stream& stream) {
  const auto body = [runs = groups_->runs(state), update = update_of(states_[state], steps_),
                     gradient = states_[state].main_gradient](const runtime::Execution& execution) {
    for (const Run& run : runs)
      update(execution, run, Operands::begin(gradient, run));
  };
  stream.launch(name(), body);
}

// Elements of one block of results, which have the address `gradient` together.
void Optimizer::update_part(std::size_t state, const runtime::Execution& execution, const layout::Range& part,
                            const void* gradient) {
  if (part.begin == 0)
    updates_[state] = update_of(states_[state], steps_ + 1);
  const std::int64_t width = size_of(states_[state].main_weight.dtype());
  for (const Run& run : groups_->runs(state)) {
    const layout::Range here{std::max(part.begin, run.local.begin), std::min(part.end, run.local.end)};
    if (here.begin < here.end)
      updates_[state](execution, {here, run.values},
                      static_cast<const std::byte*>(gradient) + (here.begin - part.begin) * width);
  }
}

void Optimizer::fuse_with_reduction() {
  for (const NamedState& state : states_)
    expect(state.update_while_reducing && state.is_updated, Status::NOT_SUPPORTED,
           "fuse_with_reduction: the gradient of '", state.tensor_names.front(), "' is not reduced by the library");
  if (fused_ != nullptr)
    return;
  const auto fused = std::make_shared<Optimizer*>(this);
  updates_.resize(states_.size());
  std::size_t taken = 0;
  try {
    for (; taken < states_.size(); ++taken)
      states_[taken].update_while_reducing([fused, i = taken](const runtime::Execution& execution, std::int64_t first,
                                                              std::int64_t count, const void* values) {
        if (*fused != nullptr)
          (*fused)->update_part(i, execution, {first, first + count}, values);
      });
    prepare_all();
  } catch (...) {
    while (taken > 0)
      states_[--taken].update_while_reducing(nullptr);
    throw;
  }
  fused_ = fused;
}

// Some modules may have had nothing to do, but a step that nobody prepared is a mistake.
void Optimizer::require_new_gradient() const {
  bool is_new = used_versions_.empty();
  for (std::size_t i = 0; i < used_versions_.size(); ++i)
    is_new = is_new || used_versions_[i] == unknown_version || used_versions_[i] != version_of(states_[i]);
  expect(is_new, Status::INVALID_STATE, "optimizer step (after ", steps_,
         " steps): no parameter has a new gradient since the last one; run a backward pass and finish_backward first");
}

void Optimizer::prepare_all() {
  if (is_prepared_ || states_.empty())
    return;
  const buffer::MeshPtr& mesh = widest_state(states_).main_weight.mesh();
  comm::Communicator& all = *mesh->communicators().all;
  comm::agree_on_value(all,
                       Hash().add(hash()).add(groups_->hash(states_, mesh)).add(learning_rate_).add(steps_).value(),
                       "optimizer step: learning rate, coefficients, groups or number of steps (here rate " +
                           std::to_string(learning_rate_) + ", " + std::to_string(steps_) + " steps)");
  comm::together(all, [&] { // all ranks have room, or none goes on
    for (NamedState& state : states_)
      prepare(state);
  });
  is_prepared_ = true;
}

DBuffer& Optimizer::state_buffer(NamedState& state, const char* name) {
  const auto found = state.state.find(name);
  if (found != state.state.end())
    return found->second;
  const DBuffer& like = state.main_gradient; // weights may stand in memory that others share
  return state.state[name] =
             DBuffer(like.mesh(), like.placements(), like.layout(), like.dtype(),
                     {state.state_arena ? state.state_arena : like.storage()->arena(), memory::Kind::optimizer_state});
}

std::unique_ptr<Optimizer> make_adamw(std::vector<NamedState> states, const AdamWConfig& config) {
  return std::make_unique<AdamW>(std::move(states), config);
}

std::unique_ptr<Optimizer> make_sgd(std::vector<NamedState> states, const SgdConfig& config) {
  return std::make_unique<Sgd>(std::move(states), config);
}

} // namespace ostraka::optim
