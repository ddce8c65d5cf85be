// SPDX-License-Identifier: Apache-2.0
// A parameter as its module declares it. Pure.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/layout/shape.hpp>

#include <string>

namespace ostraka::fsdp {

struct ParameterSpec {
  std::string name;
  layout::Shape shape;
  DType dtype = DType::f64; ///< storage type of the model weights: f64, f32 or bf16
  bool trainable = true;
};

} // namespace ostraka::fsdp
