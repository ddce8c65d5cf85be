// SPDX-License-Identifier: Apache-2.0
// What reductions give, in plain numbers: 16-bit floats are reduced in f32 in rank order and rounded once, integers
// wrap around, f32 and f64 must be exact whatever the order.
#pragma once

#include "buffer_test.hpp"

#include <cmath>
#include <vector>

namespace ostraka::buffer::test {

/// `value` as element of `dtype`, by the rules of DBuffer::cast.
inline double converted(double value, DType dtype) {
  switch (dtype) {
  case DType::f64:
    return value;
  case DType::f32:
    return static_cast<float>(value);
  case DType::bf16:
    return bf16_value(round_to_bf16(value));
  case DType::f16:
    return f16_value(round_to_f16(value));
  case DType::i64:
    return std::trunc(value);
  case DType::i32:
    return std::clamp(std::trunc(value), -0x1p31, 0x1p31 - 1);
  case DType::u8:
    return std::clamp(std::trunc(value), 0.0, 255.0);
  }
  throw std::logic_error("converted");
}

/// An exact whole number in the width of an integer type.
inline double wrapped(double value, DType dtype) {
  if (dtype == DType::u8)
    return static_cast<std::uint8_t>(static_cast<std::int64_t>(value));
  if (dtype == DType::i32)
    return static_cast<std::int32_t>(static_cast<std::int64_t>(value));
  return value;
}

template <class T>
double reduced_in(ReduceOp op, const std::vector<double>& values) {
  T result = static_cast<T>(values[0]);
  for (std::size_t i = 1; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean:
      result += value;
      break;
    case ReduceOp::max:
      result = result < value ? value : result;
      break;
    case ReduceOp::min:
      result = value < result ? value : result;
      break;
    case ReduceOp::prod:
      result *= value;
      break;
    }
  }
  return static_cast<double>(op == ReduceOp::mean ? result / static_cast<T>(values.size()) : result);
}

/// The values of the ranks of an axis, in their order, reduced.
inline double reduced(ReduceOp op, DType dtype, const std::vector<double>& values) {
  if (!is_floating(dtype))
    return wrapped(reduced_in<double>(op, values), dtype);
  const bool in_double = dtype == DType::f64;
  return in_double ? reduced_in<double>(op, values) : converted(reduced_in<float>(op, values), dtype);
}

} // namespace ostraka::buffer::test
