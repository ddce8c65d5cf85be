// SPDX-License-Identifier: Apache-2.0
// Modules of vectors whose gradients are constants, so that sums are known.
#pragma once

#include "network.hpp"

namespace ostraka::fsdp::test {

inline std::vector<double> constant(std::int64_t count, double value) {
  return std::vector<double>(static_cast<std::size_t>(count), value);
}

inline std::int64_t size_of_parameter(const FsdpModule& module, const std::string& name) {
  return layout::numel(module.spec(name).shape);
}

/// Declares vectors and builds.
inline FsdpModule& with_vectors(FsdpModule& module, const std::vector<std::pair<std::string, std::int64_t>>& vectors) {
  for (const auto& [name, size] : vectors)
    module.add_parameter({name, {size}, DType::f64, true});
  module.build();
  return module;
}

/// Contributes `value` to every element; returns beta.
inline double write(FsdpModule& module, const std::string& name, double value) {
  const FsdpModule::Gradient gradient = module.gradient(name, DType::f64);
  on_stream(
      is_on_device() ? runtime::Device::cuda : runtime::Device::host,
      [=](auto elements) {
        for (double& element : elements)
          contribute(&element, gradient.beta, value);
      },
      span_of(static_cast<double*>(gradient.data), size_of_parameter(module, name)));
  return gradient.beta;
}

inline void forward(FsdpModule& module) {
  module.pre_forward();
  module.post_forward();
}

/// A backward pass in which every parameter named gets `value`.
inline void backward(FsdpModule& module, double value, const std::vector<std::string>& names = {"w"}) {
  module.pre_backward();
  for (const std::string& name : names)
    write(module, name, value);
  module.post_backward();
}

/// This rank's elements of the reduced gradient.
inline void expect_gradient(const FsdpModule& module, const std::string& name, double expected) {
  const buffer::TensorRange own = module.main_gradient(name, DType::f64);
  EXPECT_EQ(elements_at(own.data, own.count, DType::f64), constant(own.count, expected))
      << module.full_name() << "." << name;
}

/// 1 + 2 + ... + ranks.
inline double sum_of_ranks() { return ranks * (ranks + 1) / 2.0; }

/// Equal layers, each one vector of 8192 elements whose values are its number + 1.
struct Layers {
  Layers(const buffer::MeshPtr& mesh, ContextConfig config, int count = 4)
      : context(FsdpContext::create(mesh, config)) {
    for (int k = 0; k < count; ++k) {
      layers.push_back(&with_vectors(context->add_module("layer" + std::to_string(k)), {{"w", size}}));
      layers.back()->set_parameter("w", constant(size, k + 1).data(), size, DType::f64);
    }
    context->finalize();
  }
  Layers(std::shared_ptr<FsdpContext> context, std::vector<FsdpModule*> layers)
      : context(std::move(context)), layers(std::move(layers)) {}
  Layers(const buffer::MeshPtr& mesh, Recipe recipe) : Layers(mesh, make_config(recipe, layout::ReduceOp::sum)) {}

  static constexpr std::int64_t size = 8192; ///< many pages

  void expect_readable(int k) {
    EXPECT_EQ(elements_at(layers[k]->parameter("w", DType::f64), size, DType::f64), constant(size, k + 1));
  }
  void forward_all() {
    for (FsdpModule* layer : layers)
      forward(*layer);
  }
  void expect_gradients(double expected) {
    for (const FsdpModule* layer : layers)
      expect_gradient(*layer, "w", expected);
  }
  /// Layers whose weights are gathered, by what they take; nothing where a node shares them.
  void expect_gathered(int count) {
    const std::int64_t found = context->memory().transient, layer = size * 8;
    EXPECT_GE(found, shares_weights() ? 0 : count * layer / sharing_ranks());
    EXPECT_LT(found, shares_weights() ? 1 : (count + 1) * layer / sharing_ranks());
  }

  std::shared_ptr<FsdpContext> context;
  std::vector<FsdpModule*> layers;
};

} // namespace ostraka::fsdp::test
