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
  for (std::int64_t i = 0; i < size_of_parameter(module, name); ++i)
    contribute(static_cast<double*>(gradient.data) + i, gradient.beta, value);
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
  for (std::int64_t i = 0; i < own.count; ++i)
    EXPECT_EQ(element(own.data, i, DType::f64), expected) << module.full_name() << "." << name << ", element " << i;
}

/// 1 + 2 + ... + ranks.
inline double sum_of_ranks() { return ranks * (ranks + 1) / 2.0; }

} // namespace ostraka::fsdp::test
