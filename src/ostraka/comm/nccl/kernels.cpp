// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/with_type.hpp>
#include <ostraka/comm/nccl/impl/kernels.hpp>
#include <ostraka/runtime/kokkos_execution.hpp>

#include <type_traits>

namespace ostraka::comm::nccl {

namespace {

using layout::ReduceOp;

// The integer type and the floating type of its width in which extremes of T are found.
template <class T>
using Ordered = std::conditional_t<std::is_same_v<T, double>, double, float>;
template <class T>
using Key = std::conditional_t<std::is_same_v<T, double>, std::int64_t, std::int32_t>;

template <class Integer>
constexpr Integer all_but_sign = static_cast<Integer>(~(std::make_unsigned_t<Integer>{1} << (8 * sizeof(Integer) - 1)));

template <class T>
struct Widen {
  const T* from;
  float* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = static_cast<float>(from[i]); }
};

template <class T>
struct Narrow {
  const float* from;
  T* to;
  float divisor;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = T(from[i] / divisor); }
};

// The bits of negative numbers grow with their size: turned over, they are in order.
template <class T>
struct ToKeys {
  const T* from;
  Key<T>* to;
  Key<T> of_nan;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const auto value = static_cast<Ordered<T>>(from[i]);
    const auto bits = __builtin_bit_cast(Key<T>, value);
    to[i] = value != value ? of_nan : bits < 0 ? bits ^ all_but_sign<Key<T>> : bits;
  }
};

template <class T>
struct FromKeys {
  const Key<T>* from;
  T* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const Key<T> bits = from[i] < 0 ? from[i] ^ all_but_sign<Key<T>> : from[i];
    to[i] = static_cast<T>(__builtin_bit_cast(Ordered<T>, bits));
  }
};

template <class T>
struct Divide {
  T* data;
  T divisor;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { data[i] /= divisor; }
};

template <class Body>
void for_floating(DType dtype, Body&& body) {
  with_floating(dtype, body, [&] { fail(Status::INTERNAL, "nccl kernels: ", name(dtype), " is no floating type"); });
}

template <class Body>
void for_16_bits(DType dtype, Body&& body) {
  if (dtype == DType::bf16)
    return body(bfloat16{});
  expect(dtype == DType::f16, Status::INTERNAL, "nccl kernels: ", name(dtype), " has not 16 bits");
  body(float16{});
}

} // namespace

Wire wire_of(DType dtype, ReduceOp op) {
  const bool compares = op == ReduceOp::max || op == ReduceOp::min;
  if (is_floating(dtype) && compares)
    return {Form::keys, dtype == DType::f64 ? DType::i64 : DType::i32};
  if (dtype == DType::bf16 || dtype == DType::f16)
    return {Form::wide, DType::f32};
  return {Form::direct, dtype};
}

void to_wire(const runtime::Execution& execution, const Wire& wire, ReduceOp op, const void* from, DType dtype,
             void* to, std::int64_t count) {
  if (wire.form == Form::wide)
    for_16_bits(dtype, [&](auto value) {
      using T = decltype(value);
      runtime::parallel_for("ostraka::widen", execution, count,
                            Widen<T>{static_cast<const T*>(from), static_cast<float*>(to)});
    });
  if (wire.form == Form::keys)
    for_floating(dtype, [&](auto value) {
      using T = decltype(value);
      constexpr Key<T> largest = all_but_sign<Key<T>>;
      runtime::parallel_for("ostraka::to_keys", execution, count,
                            ToKeys<T>{static_cast<const T*>(from), static_cast<Key<T>*>(to),
                                      op == ReduceOp::max ? largest : static_cast<Key<T>>(~largest)});
    });
}

void from_wire(const runtime::Execution& execution, const Wire& wire, ReduceOp op, int ranks, const void* from,
               void* to, DType dtype, std::int64_t count) {
  const bool divides = op == ReduceOp::mean;
  if (wire.form == Form::wide)
    return for_16_bits(dtype, [&](auto value) {
      using T = decltype(value);
      runtime::parallel_for(
          "ostraka::narrow", execution, count,
          Narrow<T>{static_cast<const float*>(from), static_cast<T*>(to), divides ? static_cast<float>(ranks) : 1.0f});
    });
  if (wire.form == Form::keys)
    return for_floating(dtype, [&](auto value) {
      using T = decltype(value);
      runtime::parallel_for("ostraka::from_keys", execution, count,
                            FromKeys<T>{static_cast<const Key<T>*>(from), static_cast<T*>(to)});
    });
  if (divides && dtype == DType::f64)
    runtime::parallel_for("ostraka::divide", execution, count,
                          Divide<double>{static_cast<double*>(to), static_cast<double>(ranks)});
  if (divides && dtype == DType::f32)
    runtime::parallel_for("ostraka::divide", execution, count,
                          Divide<float>{static_cast<float*>(to), static_cast<float>(ranks)});
}

} // namespace ostraka::comm::nccl
