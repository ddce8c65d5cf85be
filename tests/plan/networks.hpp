// SPDX-License-Identifier: Apache-2.0
// The networks of the examples steam and digits, by their shapes, and random trees.
#pragma once

#include "fsdp/tree_draw.hpp"
#include <ostraka/plan/request.hpp>

namespace ostraka::plan::test {

inline std::vector<Unit> dense_layers(const std::vector<std::int64_t>& widths, DType dtype) {
  std::vector<Unit> units;
  for (std::size_t k = 0; k + 1 < widths.size(); ++k) {
    Unit unit;
    unit.name = "layer " + std::to_string(k);
    unit.parameters = {{"weight", {widths[k + 1], widths[k]}, dtype, true}, {"bias", {widths[k + 1]}, dtype, true}};
    units.push_back(std::move(unit));
  }
  return units;
}

inline std::vector<Unit> steam() { return dense_layers({2, 32, 32, 32, 3}, DType::f64); }
inline std::vector<Unit> digits(DType dtype) { return dense_layers({64, 128, 64, 10}, dtype); }

namespace trees = fsdp::test::trees;

inline DType dtype_of(trees::Type type) {
  return type == trees::Type::f64 ? DType::f64 : type == trees::Type::f32 ? DType::f32 : DType::bf16;
}

/// A random tree, and the hooks of its first micro-batch.
class TreeRequest {
public:
  TreeRequest(std::uint64_t seed, int ranks) : plan_(trees::draw_plan(seed, ranks)) {
    for (std::size_t axis = 0; axis < plan_.mesh.size(); ++axis)
      request_.mesh.push_back({"axis" + std::to_string(axis), plan_.mesh[axis]});
    fsdp::ContextConfig& config = request_.config;
    config.recipe = static_cast<fsdp::Recipe>(plan_.recipe);
    config.reduction = plan_.is_mean ? layout::ReduceOp::mean : layout::ReduceOp::sum;
    config.gradient_slots = plan_.gradient_slots;
    config.unified_stream = plan_.is_unified;
    config.prefetch = plan_.prefetch;
    if (plan_.compute)
      config.compute_dtype = dtype_of(*plan_.compute);
    request_.optimizer = plan_.is_adamw       ? Optimizer::adamw
                         : plan_.momentum > 0 ? Optimizer::sgd_momentum
                                              : Optimizer::sgd;
    request_.fuse_with_reduction = plan_.is_fused;
    for (std::size_t m = 0; m < plan_.modules.size(); ++m)
      add_unit(m);
    const trees::StepPlan& step = plan_.steps.front();
    request_.micro_batches = static_cast<int>(step.micro_batches.size());
    batch_ = &step.micro_batches.front();
    forward(batch_->forward);
    early(batch_->backward);
    backward(batch_->backward);
  }

  const Request& request() const { return request_; }
  Request& request() { return request_; }

private:
  using Hook = fsdp::Hook;
  using Node = trees::Node;

  void add_unit(std::size_t m) {
    const trees::ModulePlan& module = plan_.modules[m];
    Unit unit;
    unit.name = "m" + std::to_string(m);
    if (module.parent >= 0)
      unit.parent = module.parent;
    for (const trees::ParameterPlan& parameter : module.parameters)
      unit.parameters.push_back(
          {parameter.names[0], parameter.shape, dtype_of(parameter.storage), parameter.is_trainable});
    if (module.prefetch)
      unit.prefetch = Unit::Prefetch{*module.prefetch};
    unit.gradient_divisor = module.divisor;
    request_.units.push_back(std::move(unit));
  }

  int module_of(const Node& node) const { return batch_->uses[static_cast<std::size_t>(node.use)].module; }

  void forward(const std::vector<Node>& nodes) {
    for (const Node& node : nodes)
      forward(node, true, request_.forward);
  }
  void forward(const Node& node, bool with_inner, std::vector<fsdp::Event>& events) {
    events.push_back({module_of(node), Hook::pre_forward});
    for (const Node& inner : node.inner)
      if (with_inner)
        forward(inner, true, events);
    events.push_back({module_of(node), Hook::post_forward});
  }
  void early(const std::vector<Node>& nodes) {
    for (const Node& node : nodes) {
      if (node.recompute == trees::Recompute::early)
        forward(node, false, request_.backward);
      early(node.inner);
    }
  }
  void backward(const std::vector<Node>& nodes) {
    using enum trees::Recompute;
    std::vector<fsdp::Event>& events = request_.backward;
    for (const Node& node : nodes) {
      if (node.recompute == before || node.recompute == before_with_inner)
        forward(node, node.recompute == before_with_inner, events);
      events.push_back({module_of(node), Hook::pre_backward});
      if (node.recompute == inside)
        forward(node, false, events);
      backward(node.inner);
      events.push_back({module_of(node), Hook::post_backward});
    }
  }

  trees::Plan plan_;
  Request request_;
  const trees::MicroBatch* batch_ = nullptr;
};

} // namespace ostraka::plan::test
