// SPDX-License-Identifier: Apache-2.0
// Reads and writes elements of any DType as double, without the library's own conversions.
#pragma once

#include "round_16.hpp"
#include <ostraka/base/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace ostraka::test {

inline constexpr DType floating_types[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
inline constexpr DType all_types[] = {DType::f64, DType::f32, DType::bf16, DType::f16,
                                      DType::i64, DType::i32, DType::u8};

inline std::int64_t width_of(DType dtype) {
  switch (dtype) {
  case DType::f64:
  case DType::i64:
    return 8;
  case DType::f32:
  case DType::i32:
    return 4;
  case DType::bf16:
  case DType::f16:
    return 2;
  case DType::u8:
    return 1;
  }
  throw std::logic_error("width_of");
}

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

template <class T>
void store(std::byte* to, T value) {
  std::memcpy(to, &value, sizeof value);
}

/// Element `index` of an array of `dtype`; exact for |integers| < 2^53.
inline double element(const void* data, std::int64_t index, DType dtype) {
  const auto* at = static_cast<const std::byte*>(data) + index * width_of(dtype);
  switch (dtype) {
  case DType::f64:
    return load<double>(at);
  case DType::f32:
    return load<float>(at);
  case DType::bf16:
    return bf16_value(load<std::uint16_t>(at));
  case DType::f16:
    return f16_value(load<std::uint16_t>(at));
  case DType::i64:
    return static_cast<double>(load<std::int64_t>(at));
  case DType::i32:
    return load<std::int32_t>(at);
  case DType::u8:
    return load<std::uint8_t>(at);
  }
  throw std::logic_error("element");
}

inline void set_element(void* data, std::int64_t index, DType dtype, double value) {
  auto* at = static_cast<std::byte*>(data) + index * width_of(dtype);
  switch (dtype) {
  case DType::f64:
    return store(at, value);
  case DType::f32:
    return store(at, static_cast<float>(value));
  case DType::bf16:
    return store(at, round_to_bf16(value));
  case DType::f16:
    return store(at, round_to_f16(value));
  case DType::i64:
    return store(at, static_cast<std::int64_t>(value));
  case DType::i32:
    return store(at, static_cast<std::int32_t>(value));
  case DType::u8:
    return store(at, static_cast<std::uint8_t>(value));
  }
  throw std::logic_error("set_element");
}

inline std::vector<double> elements(const void* data, std::int64_t count, DType dtype) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(element(data, i, dtype));
  return values;
}

/// `values` as an array of `dtype`.
inline std::vector<std::byte> encode(const std::vector<double>& values, DType dtype) {
  std::vector<std::byte> bytes(values.size() * static_cast<std::size_t>(width_of(dtype)));
  for (std::size_t i = 0; i < values.size(); ++i)
    set_element(bytes.data(), static_cast<std::int64_t>(i), dtype, values[i]);
  return bytes;
}

} // namespace ostraka::test
