// SPDX-License-Identifier: Apache-2.0
#include "sums.hpp"

#include <ostraka/comm/impl/vectors.hpp>

#include <cstring>

namespace ostraka::bench {

namespace {

OSTRAKA_WIDEST void sum_f64(double* out, const double* a, const double* b, std::int64_t count) {
  OSTRAKA_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = a[i] + b[i];
}

OSTRAKA_WIDEST void sum_f32(float* out, const float* a, const float* b, std::int64_t count) {
  OSTRAKA_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i)
    out[i] = a[i] + b[i];
}

inline float low(std::uint32_t pair) { return __builtin_bit_cast(float, pair << 16); }
inline float high(std::uint32_t pair) { return __builtin_bit_cast(float, pair & 0xffff0000u); }

// The float's upper half, rounded to nearest, in place; numbers only.
inline std::uint32_t rounded(float value) {
  const auto word = __builtin_bit_cast(std::uint32_t, value);
  return word + 0x7fffu + ((word >> 16) & 1u);
}

OSTRAKA_WIDEST void sum_bf16(std::uint32_t* out, const std::uint32_t* a, const std::uint32_t* b, std::int64_t pairs) {
  OSTRAKA_INDEPENDENT
  for (std::int64_t i = 0; i < pairs; ++i)
    out[i] = (rounded(low(a[i]) + low(b[i])) >> 16) | (rounded(high(a[i]) + high(b[i])) & 0xffff0000u);
}

void mpi_sum_bf16(void* in, void* inout, int* count, MPI_Datatype*) {
  auto* total = static_cast<std::byte*>(inout);
  sum_two(DType::bf16, total, total, static_cast<const std::byte*>(in), std::int64_t{*count} * 2);
}

template <class T>
void call(void (*sum)(T*, const T*, const T*, std::int64_t), std::byte* out, const std::byte* a, const std::byte* b,
          std::int64_t bytes) {
  sum(reinterpret_cast<T*>(out), reinterpret_cast<const T*>(a), reinterpret_cast<const T*>(b),
      bytes / static_cast<std::int64_t>(sizeof(T)));
}

} // namespace

void sum_two(DType dtype, std::byte* out, const std::byte* a, const std::byte* b, std::int64_t bytes) {
  if (dtype == DType::f64)
    return call(sum_f64, out, a, b, bytes);
  if (dtype == DType::f32)
    return call(sum_f32, out, a, b, bytes);
  call(sum_bf16, out, a, b, bytes);
  if (bytes % 4 != 0) { // the last of an odd number
    std::uint32_t pair_a = 0, pair_b = 0, total = 0;
    std::memcpy(&pair_a, a + bytes - 2, 2);
    std::memcpy(&pair_b, b + bytes - 2, 2);
    sum_bf16(&total, &pair_a, &pair_b, 1);
    std::memcpy(out + bytes - 2, &total, 2);
  }
}

MpiSum mpi_sum(DType dtype) {
  if (dtype == DType::f64)
    return {MPI_DOUBLE, MPI_SUM};
  if (dtype == DType::f32)
    return {MPI_FLOAT, MPI_SUM};
  MpiSum sum;
  MPI_Type_contiguous(2, MPI_BYTE, &sum.type);
  MPI_Type_commit(&sum.type);
  MPI_Op_create(mpi_sum_bf16, 1, &sum.op);
  return sum;
}

void release(MpiSum& sum) {
  if (sum.op == MPI_SUM)
    return;
  MPI_Op_free(&sum.op);
  MPI_Type_free(&sum.type);
}

} // namespace ostraka::bench
