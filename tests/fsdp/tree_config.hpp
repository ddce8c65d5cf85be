// SPDX-License-Identifier: Apache-2.0
// What a plan says, in the words of the library.
#pragma once

#include "network.hpp"
#include "tree_plan.hpp"

namespace ostraka::fsdp::test::trees {

inline DType dtype_of(Type type) {
  return type == Type::f64 ? DType::f64 : type == Type::f32 ? DType::f32 : DType::bf16;
}
/// Of main weights and gradients.
inline Type wide(Type storage) { return storage == Type::f64 ? Type::f64 : Type::f32; }
inline double rounded(double value, Type type) {
  if (type == Type::f64)
    return value;
  return type == Type::f32 ? static_cast<double>(static_cast<float>(value)) : bf16_value(round_to_bf16(value));
}

/// Calls body(T{}) with the type in which gradients of `storage` are taken.
template <class Body>
void with_wide(Type storage, Body&& body) {
  wide(storage) == Type::f64 ? body(double{}) : body(float{});
}

inline ContextConfig config_of(const Plan& plan) {
  ContextConfig config =
      make_config(static_cast<Recipe>(plan.recipe), plan.is_mean ? layout::ReduceOp::mean : layout::ReduceOp::sum);
  config.gradient_slots = plan.gradient_slots;
  config.unified_stream = plan.is_unified;
  config.prefetch = plan.prefetch;
  if (plan.compute)
    config.compute_dtype = dtype_of(*plan.compute);
  return config;
}

} // namespace ostraka::fsdp::test::trees
