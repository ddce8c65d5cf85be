// SPDX-License-Identifier: Apache-2.0
// Runs a plan with the library, beside its twin.
#pragma once

#include "tree_config.hpp"
#include "tree_twin.hpp"

#include <chrono>
#include <limits>
#include <map>
#include <thread>

namespace ostraka::fsdp::test::trees {

/// All of it is collective.
class TreeRun {
public:
  TreeRun(const Plan& plan, const buffer::MeshPtr& mesh)
      : plan_(plan), twin_(plan), context_(FsdpContext::create(mesh, config_of(plan))), seen_(twin_.weights()) {
    for (int m = 0; m < static_cast<int>(plan.modules.size()); ++m)
      declare(m);
    context_->finalize();
    const PlainOptimizer defaults;
    if (plan.is_adamw)
      optimizer_ = optim::make_adamw(context_->named_states(),
                                     {plan.rate, defaults.beta1, defaults.beta2, Twin::epsilon, plan.weight_decay});
    else
      optimizer_ = optim::make_sgd(context_->named_states(), {plan.rate, plan.momentum, plan.weight_decay});
    if (plan.is_fused)
      optimizer_->fuse_with_reduction();
  }

  void run() {
    for (const StepPlan& step : plan_.steps)
      run(step);
    expect_whole_weights();
  }

private:
  // --- set-up

  void declare(int m) {
    const ModulePlan& plan = plan_.modules[m];
    const std::string name = "m" + std::to_string(m);
    modules_.push_back(plan.parent < 0 ? &context_->add_module(name) : &modules_[plan.parent]->add_module(name));
    FsdpModule& module = *modules_.back();
    for (const ParameterPlan& parameter : plan.parameters) {
      module.add_parameter({parameter.names[0], parameter.shape, dtype_of(parameter.storage), parameter.is_trainable});
      if (parameter.names.size() > 1)
        module.tie_parameter(parameter.names[1], parameter.names[0]);
    }
    module.set_allow_unused(plan.allows_unused);
    module.set_gradient_divisor(plan.divisor);
    if (plan.prefetch)
      module.set_prefetch(*plan.prefetch);
    module.build();
    for (int p = 0; p < static_cast<int>(plan.parameters.size()); ++p)
      set({m, p, 0});
  }

  /// In the twin and in one of three ways here; a tied name stands for the parameter.
  void set(const SetPlan& set) {
    twin_.set(set);
    const std::vector<double>& values = twin_.weights()[set.module][set.parameter];
    seen_[set.module][set.parameter] = values;
    const std::string& name = plan_.modules[set.module].parameters[set.parameter].names.back();
    const auto count = static_cast<std::int64_t>(values.size());
    FsdpModule& module = *modules_[set.module];
    if (set.salt % 3 == 0)
      return module.set_parameter(name, values.data(), count, DType::f64);
    if (set.salt % 3 == 1)
      return module.set_from_root(name, rank == set.salt % ranks ? values.data() : nullptr, count, DType::f64,
                                  set.salt % ranks);
    module.initialise(name, [&](std::int64_t first, std::int64_t number, void* out, DType dtype) {
      for (std::int64_t i = 0; i < number; ++i)
        set_element(out, i, dtype, values[first + i]);
    });
  }

  // --- steps

  void run(const StepPlan& step) {
    if (!step.adds_up)
      zero_grad();
    for (const MicroBatch& batch : step.micro_batches) {
      batch_ = &batch;
      context_->set_last_microbatch(&batch == &step.micro_batches.back());
      run_micro_batch();
    }
    expect_nothing_gathered();
    if (step.look && !plan_.is_fused)
      look(*step.look);
    optimizer_->step();
    twin_.step();
    expect_main_weights();
    if (step.reads_whole)
      expect_whole_weights();
  }

  void zero_grad() {
    context_->zero_grad();
    twin_.zero_grad();
  }

  void run_micro_batch() {
    if (batch_->drops)
      zero_grad();
    if (batch_->set)
      set(*batch_->set);
    if (batch_->evaluates)
      evaluate();
    batch_->is_skipped[rank] != 0 ? context_->skip_microbatch() : run_passes();
    twin_.add(*batch_);
  }

  void run_passes() {
    outputs_.assign(batch_->uses.size(), {});
    for (const Node& node : batch_->forward) {
      forward(node, true);
      if (&node == &batch_->forward.front() && batch_->set_inside)
        set(*batch_->set_inside);
    }
    if (batch_->begins_backward)
      context_->begin_backward();
    recompute_early(batch_->backward);
    backward(batch_->backward);
    context_->finish_backward();
  }

  void look(const Look& look) {
    modules_[look.module]->unshard(look.is_forward ? FsdpModule::Ahead::forward : FsdpModule::Ahead::backward);
    expect_readable(look.module, "outside a pass");
    modules_[look.module]->reshard();
  }

  void evaluate() {
    context_->begin_inference();
    for (int pass = 0; pass < (rank + batch_->time) % 3; ++pass)
      for (std::size_t m = 0; m < modules_.size(); ++m) {
        modules_[m]->pre_forward();
        expect_readable(static_cast<int>(m), "inference");
        modules_[m]->post_forward();
      }
    context_->end_inference();
    expect_nothing_gathered();
  }

  const Use& use_of(const Node& node) const { return batch_->uses[node.use]; }
  FsdpModule& module_of(const Node& node) const { return *modules_[use_of(node).module]; }
  bool is_without_hooks(const Node& node) const {
    return batch_->is_without_empty[rank] != 0 && plan_.modules[use_of(node).module].parameters.empty();
  }

  void forward(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      forward(node, true);
  }

  void forward(const Node& node, bool with_inner) {
    if (is_without_hooks(node))
      return with_inner ? forward(node.inner) : void();
    if (use_of(node).is_skipped[rank] != 0 && node.inner.empty())
      return module_of(node).skip_forward();
    module_of(node).pre_forward();
    compute(node);
    if (with_inner)
      forward(node.inner);
    expect_readable(use_of(node).module, "end of forward");
    module_of(node).post_forward();
  }

  void recompute_early(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (node.recompute == Recompute::early)
        forward(node, false);
      recompute_early(node.inner);
    }
  }

  void backward(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      backward(node);
  }

  void backward(const Node& node) {
    if (node.recompute == Recompute::before || node.recompute == Recompute::before_with_inner)
      forward(node, node.recompute == Recompute::before_with_inner);
    if (is_without_hooks(node))
      return backward(node.inner);
    if (use_of(node).is_skipped[rank] != 0)
      return module_of(node).skip_backward();
    module_of(node).pre_backward();
    expect_readable(use_of(node).module, "begin of backward");
    if (node.recompute == Recompute::inside)
      forward(node, false);
    if (is_slow(rank, batch_->time, -1 - node.use))
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    write_gradients(node, 0);
    backward(node.inner);
    write_gradients(node, 1);
    expect_readable(use_of(node).module, "end of backward");
    module_of(node).post_backward();
  }

  // --- arithmetic of a use

  Dense layer_of(int m) const {
    const std::vector<std::int64_t>& shape = plan_.modules[m].parameters[0].shape;
    return {static_cast<int>(shape[1]), static_cast<int>(shape[0])};
  }

  Type compute_of(const ParameterPlan& parameter) const { return plan_.compute.value_or(wide(parameter.storage)); }

  template <class T>
  std::vector<T> data(int use, int columns, bool is_target) const {
    const auto data = dense_data(rank, batch_->time, use, dense_rows(rank, batch_->time), columns, is_target);
    return {data.begin(), data.end()};
  }

  /// The weight at this moment.
  std::vector<double> read(int m, int p) const {
    const ParameterPlan& parameter = plan_.modules[m].parameters[p];
    const DType compute = dtype_of(compute_of(parameter));
    return elements_at(modules_[m]->parameter(parameter.names.back(), compute), parameter.size(), compute);
  }
  template <class T>
  std::vector<T> read_as(int m, int p) const {
    const std::vector<double> weight = read(m, p);
    return {weight.begin(), weight.end()};
  }

  void compute(const Node& node) {
    const int m = use_of(node).module;
    if (is_slow(rank, batch_->time, node.use))
      std::this_thread::sleep_for(std::chrono::microseconds(300));
    expect_readable(m, "begin of forward");
    if (!plan_.modules[m].is_dense)
      return;
    with_wide(plan_.modules[m].parameters[0].storage, [&]<class T>(T) {
      const std::vector<T> weight = read_as<T>(m, 0), bias = read_as<T>(m, 1);
      const auto y =
          dense_forward(layer_of(m), true, weight.data(), bias.data(), data<T>(node.use, layer_of(m).in, false));
      outputs_[node.use].assign(y.begin(), y.end());
    });
  }

  /// What is written before the uses inside (`part` 0) or behind them (1) differs between ranks: asking is local.
  void write_gradients(const Node& node, int part) {
    const Use& use = use_of(node);
    const auto& parameters = plan_.modules[use.module].parameters;
    for (int p = 0; p < static_cast<int>(parameters.size()); ++p) {
      if (!parameters[p].is_trainable || use.is_left_out[p] != 0)
        continue;
      const auto choice = static_cast<int>(mix({rank, batch_->time, node.use, p}) % 3);
      if (plan_.modules[use.module].is_dense ? part == choice % 2 : choice == 2 || part == choice)
        with_wide(parameters[p].storage, [&]<class T>(T) {
          plan_.modules[use.module].is_dense ? write_dense<T>(node, p) : write<T>(node, p, choice == 2, part);
        });
    }
  }

  template <class T>
  void write(const Node& node, int p, bool is_half, int part) {
    const ParameterPlan& parameter = plan_.modules[use_of(node).module].parameters[p];
    const std::vector<double> weight = read(use_of(node).module, p);
    for (int name = 0; name < static_cast<int>(parameter.names.size()); ++name) {
      const auto [out, beta] = module_of(node).gradient(parameter.names[name], dtype_of(wide(parameter.storage)));
      write_to(static_cast<T*>(out), beta, static_cast<std::int64_t>(weight.size()), [&, beta = beta](T* gradient) {
        for (std::size_t i = 0; i < weight.size(); ++i) {
          const double value = plan_.contribution(rank, batch_->time, node.use, p, name, static_cast<std::int64_t>(i)) +
                               parameter.slope * weight[i];
          contribute(gradient + i, beta, static_cast<T>(!is_half ? value : part == 0 ? 4 + value : -4));
        }
      });
    }
  }

  template <class T>
  void write_dense(const Node& node, int p) {
    const int m = use_of(node).module;
    const Dense layer = layer_of(m);
    const std::vector<T> y(outputs_[node.use].begin(), outputs_[node.use].end());
    std::vector<T> d = data<T>(node.use, layer.out, true);
    for (std::size_t i = 0; i < d.size(); ++i)
      d[i] = T(0.25) * (y[i] - d[i]);
    dense_unbend(true, y, d);
    const ParameterPlan& parameter = plan_.modules[m].parameters[p];
    const auto [out, beta] = module_of(node).gradient(parameter.names[0], dtype_of(wide(parameter.storage)));
    write_to(static_cast<T*>(out), beta, parameter.size(), [&, beta = beta](T* gradient) {
      if (p == 0)
        dense_weight_gradient(layer, data<T>(node.use, layer.in, false), d, beta, gradient);
      else
        dense_bias_gradient(layer, d, beta, gradient);
    });
  }

  /// Has body(gradient) write `count` elements at `out`, on devices by way of copies.
  template <class T, class Body>
  static void write_to(T* out, double beta, std::int64_t count, Body&& body) {
    if (!runtime::is_device_memory(out))
      return body(out);
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    std::vector<std::byte> copy(static_cast<std::size_t>(bytes));
    if (beta != 0)
      copy = bytes_at(out, bytes);
    body(reinterpret_cast<T*>(copy.data()));
    write_at(out, copy.data(), bytes);
  }

  // --- comparisons

  void expect_nothing_gathered() const {
    if (plan_.mesh.size() == 1) { // else reductions keep what they need between axes
      EXPECT_EQ(context_->memory().transient, 0);
    }
  }

  /// What is handed out is what was updated last, rounded to the types on its way.
  void expect_readable(int m, const char* when) const {
    for (int p = 0; p < static_cast<int>(plan_.modules[m].parameters.size()); ++p) {
      const ParameterPlan& parameter = plan_.modules[m].parameters[p];
      const std::vector<double> found = read(m, p);
      for (std::size_t i = 0; i < found.size(); ++i) {
        const double expected = rounded(rounded(seen_[m][p][i], parameter.storage), compute_of(parameter));
        if (found[i] != expected) {
          ADD_FAILURE() << text(m, p) << ", element " << i << ", " << when << " in micro-batch " << batch_->time
                        << ": expected " << expected << ", found " << found[i];
          return;
        }
      }
    }
  }

  /// Through the library's gathers. Collective.
  void expect_whole_weights() const {
    for (std::size_t m = 0; m < modules_.size(); ++m) {
      modules_[m]->unshard();
      expect_readable(static_cast<int>(m), "whole");
      modules_[m]->reshard();
    }
  }

  /// Main weights from the parts of all ranks, without the library, against the twin; where several ranks have an
  /// element they agree. Collective.
  void expect_main_weights() {
    std::map<std::string, std::pair<const buffer::NamedState*, int>> places;
    const std::vector<buffer::NamedState> states = context_->named_states();
    for (const buffer::NamedState& state : states)
      for (std::size_t i = 0; i < state.tensor_names.size(); ++i)
        places[state.tensor_names[i]] = {&state, static_cast<int>(i)};
    for (int m = 0; m < static_cast<int>(modules_.size()); ++m)
      for (int p = 0; p < static_cast<int>(plan_.modules[m].parameters.size()); ++p)
        if (const auto place = places.find(text(m, p)); place != places.end()) {
          seen_[m][p] = whole_main_weight(*place->second.first, place->second.second, text(m, p));
          const bool is_f64 = plan_.modules[m].parameters[p].storage == Type::f64;
          expect_close(seen_[m][p], twin_.weights()[m][p], is_f64 ? 1e-12 : 1e-5,
                       text(m, p) + " after micro-batch " + std::to_string(batch_->time));
        } else {
          EXPECT_FALSE(plan_.modules[m].parameters[p].is_trainable) << text(m, p);
        }
  }

  std::vector<double> whole_main_weight(const buffer::NamedState& state, int index, const std::string& what) const {
    const buffer::TensorRange own = state.main_weight.tensor_range(index);
    const auto size = static_cast<std::size_t>(state.main_weight.layout()->tensor_range(index).size());
    std::vector<double> bounds(2 * size, -std::numeric_limits<double>::infinity()); // largest, and minus the smallest
    const std::vector<double> part = elements_at(own.data, own.count, state.main_weight.dtype());
    for (std::int64_t k = 0; k < own.count; ++k) {
      bounds[own.offset + k] = part[static_cast<std::size_t>(k)];
      bounds[size + own.offset + k] = -bounds[own.offset + k];
    }
    settle(context_->mesh()->device());
    MPI_Allreduce(MPI_IN_PLACE, bounds.data(), static_cast<int>(2 * size), MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    for (std::size_t i = 0; i < size; ++i)
      EXPECT_EQ(bounds[i], -bounds[size + i]) << what << ", element " << i << ": ranks disagree";
    bounds.resize(size);
    return bounds;
  }

  std::string text(int m, int p) const { return plan_.full_name(m) + "." + plan_.modules[m].parameters[p].names[0]; }

  const Plan& plan_;
  Twin twin_;
  std::shared_ptr<FsdpContext> context_;
  std::vector<FsdpModule*> modules_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  Weights seen_; ///< main weights as last updated here, which are close to the twin's
  const MicroBatch* batch_ = nullptr;
  std::vector<std::vector<double>> outputs_; ///< [use], of dense layers
};

} // namespace ostraka::fsdp::test::trees
