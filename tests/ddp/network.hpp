// SPDX-License-Identifier: Apache-2.0
// A dense network in a DistributedDataParallel beside its plain twin, and training steps of both. Arithmetic is done in
// f64 whatever types weights and gradients have, so only what the library keeps is rounded, and in the order of the
// compute stream, for which nothing here waits in a step.
#pragma once

#include "fsdp/dense.hpp"
#include "support.hpp"

#include <map>
#include <optional>

namespace ostraka::ddp::test {

using fsdp::test::Architecture;
using fsdp::test::Dense;
using fsdp::test::mlp;
using fsdp::test::PlainOptimizer;
using fsdp::test::RowRange;
using fsdp::test::Values;

struct Options {
  Architecture net = mlp({8, 16, 4});
  Config config = make_config(false);
  std::vector<DType> storages = {DType::f64}; ///< of module m: storages[m % size]
  PlainOptimizer optimizer = {};
  int micro_batches = 1;
  int rows = 12;                      ///< of the whole batch of a micro-batch, over all ranks
  std::vector<int> registration = {}; ///< order of add_parameter by modules; empty: as numbered
};

class Training {
public:
  Training(const buffer::MeshPtr& mesh, Options options)
      : options_(std::move(options)), ddp_(DistributedDataParallel::create(mesh, options_.config)),
        weights_(fsdp::test::initial_values(options_.net)), plain_(options_.optimizer) {
    const int modules = static_cast<int>(options_.net.modules.size());
    for (int k = 0; k < modules; ++k) {
      const int m = options_.registration.empty() ? k : options_.registration[k];
      const Dense& layer = options_.net.modules[m];
      ddp_->add_parameter({name(m, 0), {layer.out, layer.in}, storage(m)});
      ddp_->add_parameter({name(m, 1), {layer.out}, storage(m)});
    }
    ddp_->finalize();
    for (int m = 0; m < modules; ++m)
      for (const int p : {0, 1}) {
        const auto& values = weights_[2 * m + p];
        ddp_->set_parameter(name(m, p), values.data(), static_cast<std::int64_t>(values.size()), DType::f64);
      }
    if (options_.config.uses == 1)
      declare_uses();
    make_optimizer();
  }

  DistributedDataParallel& ddp() { return *ddp_; }
  optim::Optimizer& optimizer() { return *optimizer_; }
  const Values& plain_weights() const { return weights_; }
  int num_modules() const { return static_cast<int>(options_.net.modules.size()); }
  static std::string name(int module, int parameter) {
    return "layer" + std::to_string(module) + (parameter == 0 ? ".weight" : ".bias");
  }
  DType storage(int module) const { return options_.storages[module % options_.storages.size()]; }
  void destroy() {
    optimizer_.reset();
    ddp_.reset();
  }

  /// Of the network's visits.
  void declare_uses() {
    std::map<int, int> uses;
    for (const int m : options_.net.visits)
      ++uses[m];
    for (int m = 0; m < num_modules(); ++m)
      for (const int p : {0, 1})
        ddp_->set_uses(name(m, p), uses[m]);
  }

  /// This rank's rows of a micro-batch: later ranks have more, the first of many may have none.
  RowRange rows(int micro_batch) const {
    const int parts = ranks * (ranks + 1) / 2;
    const int base = micro_batch * options_.rows;
    return {base + options_.rows * (rank * (rank + 1) / 2) / parts,
            base + options_.rows * ((rank + 1) * (rank + 2) / 2) / parts};
  }

  /// Forward and backward of this rank's part.
  void pass(int micro_batch) {
    const std::vector<int>& visits = options_.net.visits;
    const int last = static_cast<int>(visits.size()) - 1;
    const auto flow = std::make_shared<Flow>();
    flow->x.push_back(
        fsdp::test::data_rows<double>(rows(micro_batch), options_.net.modules[visits[0]].in, fsdp::test::input_value));
    flow->d = fsdp::test::data_rows<double>(rows(micro_batch), options_.net.modules[visits[last]].out,
                                            fsdp::test::target_value);
    for (int v = 0; v <= last; ++v) {
      ddp_->pre_forward("layer" + std::to_string(visits[v]));
      run([flow, v, last, layer = options_.net.modules[visits[v]], weight = weights(visits[v], 0),
           bias = weights(visits[v], 1)] {
        flow->x.push_back(fsdp::test::dense_forward(layer, v < last, weight().data(), bias().data(), flow->x[v]));
      });
    }
    run([flow, factor = local_factor()] {
      for (std::size_t i = 0; i < flow->d.size(); ++i)
        flow->d[i] = factor * (flow->x.back()[i] - flow->d[i]);
    });
    for (int v = last; v >= 0; --v)
      backward(flow, v);
  }

  /// The micro-batches of a step, without the update.
  void backward_all() {
    ddp_->zero_grad_buffer();
    for (int k = 0; k < options_.micro_batches; ++k) {
      std::optional<DistributedDataParallel::NoSync> scope;
      if (k < options_.micro_batches - 1)
        scope.emplace(*ddp_);
      pass(k);
    }
    ddp_->finish_grad_sync();
  }

  Values plain_gradients(const Values& weights) const {
    Values gradients = fsdp::test::zeros_like(weights);
    for (int k = 0; k < options_.micro_batches; ++k)
      fsdp::test::add_gradients(options_.net, weights, {k * options_.rows, (k + 1) * options_.rows},
                                local_factor() / divisor(), gradients);
    return gradients;
  }

  void plain_step() { plain_.step(weights_, plain_gradients(weights_)); }
  /// For twins that see other weights than the main ones.
  void plain_step(const Values& seen) { plain_.step(weights_, plain_gradients(seen)); }

  void step() {
    backward_all();
    optimizer_->step();
    plain_step();
  }

  /// Weights as handed out. Collective where they are stale.
  Values parameters() {
    Values values;
    for (int m = 0; m < num_modules(); ++m)
      for (const int p : {0, 1})
        values.push_back(elements_at(ddp_->parameter(name(m, p), storage(m)), size(m, p), storage(m)));
    return values;
  }

  /// Weights as handed out against the twin's. Collective where they are stale.
  void expect_equal(double tolerance, const std::string& what = "weights") {
    const Values found = parameters();
    for (std::size_t i = 0; i < found.size(); ++i)
      expect_close(found[i], weights_[i], tolerance, what + ", parameter " + std::to_string(i));
  }

private:
  /// Values on their way through the network: inputs of visits, and the gradient of the last one.
  struct Flow {
    std::vector<std::vector<double>> x;
    std::vector<double> d;
  };

  /// In the order of the compute stream.
  template <class Body>
  void run(Body body) {
    on_stream(ddp_->mesh()->device(), std::move(body));
  }

  std::int64_t size(int m, int p) const {
    const Dense& layer = options_.net.modules[m];
    return p == 0 ? layer.out * layer.in : layer.out;
  }

  /// A function that reads a parameter where work of the compute stream runs.
  std::function<std::vector<double>()> weights(int m, int p) {
    return [data = ddp_->parameter(name(m, p), storage(m)), count = size(m, p), dtype = storage(m)] {
      return elements(data, count, dtype);
    };
  }

  /// Adds the gradients of visit `v`, and goes on to that of its input.
  void backward(const std::shared_ptr<Flow>& flow, int v) {
    const int m = options_.net.visits[v];
    const Dense layer = options_.net.modules[m];
    const bool bends = v + 1 < static_cast<int>(options_.net.visits.size());
    run([=] { fsdp::test::dense_unbend(bends, flow->x[v + 1], flow->d); });
    contribute(m, 1,
               [=](std::vector<double>& bias) { fsdp::test::dense_bias_gradient(layer, flow->d, 0, bias.data()); });
    contribute(m, 0, [=](std::vector<double>& weight) {
      fsdp::test::dense_weight_gradient(layer, flow->x[v], flow->d, 0, weight.data());
    });
    run([=, weight = weights(m, 0)] { flow->d = fsdp::test::dense_input_gradient(layer, weight().data(), flow->d); });
  }

  template <class Compute>
  void contribute(int m, int p, Compute compute) {
    const DType dtype = ddp_->gradient_dtype(name(m, p));
    const auto place = ddp_->gradient(name(m, p), dtype);
    run([=, count = size(m, p)] {
      std::vector<double> values(static_cast<std::size_t>(count));
      compute(values);
      add_elements(place, values, dtype);
    });
    ddp_->gradient_ready(name(m, p));
  }

  /// What the sum over the ranks is divided by.
  int divisor() const { return options_.config.scaling == Scaling::sum ? 1 : ranks; }

  /// What a row's squared error is multiplied with on its rank, so that every scaling gives the whole batch's mean.
  double local_factor() const { return divisor() * 1.0 / (options_.rows * options_.micro_batches); }

  void make_optimizer() {
    const PlainOptimizer& o = options_.optimizer;
    if (o.is_adamw)
      optimizer_ = optim::make_adamw(ddp_->named_states(), {o.rate, o.beta1, o.beta2, o.epsilon, o.weight_decay});
    else
      optimizer_ = optim::make_sgd(ddp_->named_states(), {o.rate, o.momentum, o.weight_decay});
  }

  Options options_;
  DdpPtr ddp_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Values weights_; ///< of the twin
  PlainOptimizer plain_;
};

} // namespace ostraka::ddp::test
