// SPDX-License-Identifier: Apache-2.0
// What the ranks of a plan do together, in one process with plain arithmetic. Knows nothing of the library.
#pragma once

#include "dense.hpp"
#include "tree_plan.hpp"

namespace ostraka::fsdp::test::trees {

class Twin {
public:
  explicit Twin(const Plan& plan) : plan_(plan) {
    optimizer_.is_adamw = plan.is_adamw;
    optimizer_.rate = plan.rate;
    optimizer_.momentum = plan.momentum;
    optimizer_.weight_decay = plan.weight_decay;
    optimizer_.epsilon = epsilon; // large, since rounding of gradients near zero must not count
    for (int m = 0; m < static_cast<int>(plan.modules.size()); ++m) {
      weights_.emplace_back();
      for (int p = 0; p < static_cast<int>(plan.modules[m].parameters.size()); ++p) {
        weights_[m].emplace_back(plan.modules[m].parameters[p].size());
        set({m, p, 0});
      }
    }
    gradients_ = weights_;
    zero_grad();
  }

  static constexpr double epsilon = 0.0625;

  const Weights& weights() const { return weights_; }

  void set(const SetPlan& set) {
    std::vector<double>& weight = weights_[set.module][set.parameter];
    for (std::size_t i = 0; i < weight.size(); ++i)
      weight[i] = plan_.initial_value(set.module, set.parameter, set.salt, static_cast<std::int64_t>(i));
  }

  void zero_grad() {
    for (auto& module : gradients_)
      for (auto& gradient : module)
        gradient.assign(gradient.size(), 0.0);
  }

  void add(const MicroBatch& batch) {
    for (int rank = 0; rank < plan_.ranks; ++rank)
      for (int u = 0; batch.is_skipped[rank] == 0 && u < static_cast<int>(batch.uses.size()); ++u) {
        const Use& use = batch.uses[u];
        if (use.goes_back && use.is_skipped[rank] == 0)
          plan_.modules[use.module].is_dense ? add_dense(batch, rank, u) : add_use(batch, rank, u);
      }
  }

  void step() {
    Values weights, gradients;
    for_trainable([&](int m, int p) {
      weights.push_back(weights_[m][p]);
      gradients.push_back(gradients_[m][p]);
    });
    optimizer_.step(weights, gradients);
    std::size_t next = 0;
    for_trainable([&](int m, int p) { weights_[m][p] = weights[next++]; });
  }

private:
  template <class Body>
  void for_trainable(Body&& body) {
    for (int m = 0; m < static_cast<int>(plan_.modules.size()); ++m)
      for (int p = 0; p < static_cast<int>(plan_.modules[m].parameters.size()); ++p)
        if (plan_.modules[m].parameters[p].is_trainable)
          body(m, p);
  }

  double factor(int module) const { return (plan_.is_mean ? 1.0 / plan_.ranks : 1.0) / plan_.modules[module].divisor; }

  void add_use(const MicroBatch& batch, int rank, int u) {
    const Use& use = batch.uses[u];
    const ModulePlan& module = plan_.modules[use.module];
    for (int p = 0; p < static_cast<int>(module.parameters.size()); ++p) {
      const ParameterPlan& parameter = module.parameters[p];
      const std::vector<double>& weight = weights_[use.module][p];
      for (std::size_t i = 0; parameter.is_trainable && use.is_left_out[p] == 0 && i < weight.size(); ++i)
        for (int name = 0; name < static_cast<int>(parameter.names.size()); ++name)
          gradients_[use.module][p][i] +=
              factor(use.module) * (plan_.contribution(rank, batch.time, u, p, name, static_cast<std::int64_t>(i)) +
                                    parameter.slope * weight[i]);
    }
  }

  /// Half the squared error of tanh(W x + b), a quarter of it.
  void add_dense(const MicroBatch& batch, int rank, int u) {
    const Use& use = batch.uses[u];
    const Values& weights = weights_[use.module];
    const std::vector<std::int64_t>& shape = plan_.modules[use.module].parameters[0].shape;
    const Dense layer{static_cast<int>(shape[1]), static_cast<int>(shape[0])};
    const int rows = dense_rows(rank, batch.time);
    const auto x = dense_data(rank, batch.time, u, rows, layer.in, false);
    const auto target = dense_data(rank, batch.time, u, rows, layer.out, true);
    const auto y = dense_forward(layer, true, weights[0].data(), weights[1].data(), x);
    std::vector<double> d(y.size());
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = 0.25 * factor(use.module) * (y[i] - target[i]);
    dense_unbend(true, y, d);
    Values& gradients = gradients_[use.module];
    if (use.is_left_out[0] == 0)
      dense_weight_gradient(layer, x, d, 1, gradients[0].data());
    if (use.is_left_out[1] == 0)
      dense_bias_gradient(layer, d, 1, gradients[1].data());
  }

  const Plan& plan_;
  Weights weights_, gradients_;
  PlainOptimizer optimizer_;
};

} // namespace ostraka::fsdp::test::trees
