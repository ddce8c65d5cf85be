// SPDX-License-Identifier: Apache-2.0
// What reductions give, by another way than the library's: one element at a time, in the type that MPI would use,
// 16-bit types in f32 in rank order and rounded once.
#pragma once

#include "group.hpp"

#include <functional>
#include <stdexcept>

namespace ostraka::comm::test {

template <class T>
T reduced_pair(ReduceOp op, T a, T b) {
  switch (op) {
  case ReduceOp::sum:
  case ReduceOp::mean:
    return static_cast<T>(a + b);
  case ReduceOp::max:
    return std::isnan(static_cast<double>(b)) || b > a ? b : a;
  case ReduceOp::min:
    return std::isnan(static_cast<double>(b)) || b < a ? b : a;
  case ReduceOp::prod:
    return static_cast<T>(a * b);
  }
  throw std::logic_error("reduced_pair");
}

template <class T>
double reduced_as(ReduceOp op, const std::vector<double>& by_rank) {
  T total = static_cast<T>(by_rank[0]);
  for (std::size_t r = 1; r < by_rank.size(); ++r)
    total = reduced_pair(op, total, static_cast<T>(by_rank[r]));
  return static_cast<double>(op == ReduceOp::mean ? static_cast<T>(total / static_cast<T>(by_rank.size())) : total);
}

/// One element, from those of rank 0, 1, ...
inline double reduced(ReduceOp op, DType dtype, const std::vector<double>& by_rank) {
  switch (dtype) {
  case DType::f64:
    return reduced_as<double>(op, by_rank);
  case DType::f32:
    return reduced_as<float>(op, by_rank);
  case DType::bf16:
    return bf16_value(round_to_bf16(reduced_as<float>(op, by_rank)));
  case DType::f16:
    return f16_value(round_to_f16(reduced_as<float>(op, by_rank)));
  case DType::i64:
    return reduced_as<std::int64_t>(op, by_rank);
  case DType::i32:
    return reduced_as<std::int32_t>(op, by_rank);
  case DType::u8:
    return reduced_as<std::uint8_t>(op, by_rank);
  }
  throw std::logic_error("reduced");
}

/// Elements [first, first + count), where value(r, i) is element i of rank r.
template <class Value>
std::vector<double> all_reduced(ReduceOp op, DType dtype, std::int64_t first, std::int64_t count, Value&& value) {
  std::vector<double> result, by_rank(static_cast<std::size_t>(ranks));
  for (std::int64_t i = first; i < first + count; ++i) {
    for (int r = 0; r < ranks; ++r)
      by_rank[static_cast<std::size_t>(r)] = value(r, i);
    result.push_back(reduced(op, dtype, by_rank));
  }
  return result;
}

/// Elements [0, count) of value(i).
template <class Value>
std::vector<double> generated(std::int64_t count, Value&& value) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(value(i));
  return result;
}

/// Element `i` of rank `r`, so that the result on up to eight ranks is exact in every type and in any order, means up
/// to one division. Signed types have both signs, u8 reaches beyond 127.
inline double simple_value(ReduceOp op, DType dtype, int r, std::int64_t i) {
  const bool is_signed = dtype != DType::u8;
  if (op == ReduceOp::max || op == ReduceOp::min)
    return static_cast<double>((r * 97 + i * 61) % 256 - (is_signed ? 128 : 0));
  const double size = op == ReduceOp::prod ? ((r + i) % 3 == 0 ? 3 : 1) : static_cast<double>((r * 5 + i * 3) % 16 + r);
  return is_signed && (r + i) % 5 == 1 ? -size : size;
}

inline bool is_defined(ReduceOp op, DType dtype) {
  return op != ReduceOp::mean || (dtype != DType::i64 && dtype != DType::i32 && dtype != DType::u8);
}

} // namespace ostraka::comm::test
