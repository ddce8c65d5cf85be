// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/with_type.hpp>
#include <ostraka/buffer/impl/kernels.hpp>
#include <ostraka/runtime/kokkos_execution.hpp>

#include <limits>
#include <type_traits>

namespace ostraka::buffer::kernels {

namespace {

template <class T>
constexpr bool is_16_bit = std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>;

// The type in which a value of T is computed with.
template <class T>
using Arithmetic = std::conditional_t<is_16_bit<T>, float, T>;

// numeric_limits has host functions, which nvcc warns about in kernels.
template <class Integer>
constexpr Integer lowest = std::numeric_limits<Integer>::min();
template <class Integer>
constexpr Integer highest = std::numeric_limits<Integer>::max();

template <class To>
KOKKOS_FUNCTION To saturate(std::int64_t value) {
  constexpr std::int64_t low = lowest<To>, high = highest<To>;
  return static_cast<To>(value < low ? low : value > high ? high : value);
}

template <class To, class Floating>
KOKKOS_FUNCTION To truncate(Floating value) {
  constexpr To low = lowest<To>, high = highest<To>;
  constexpr Floating end = 2 * static_cast<Floating>(high / 2 + 1); // high + 1, which is exact where high is not
  if (value != value)
    return 0;
  return value >= end ? high : value <= static_cast<Floating>(low) ? low : static_cast<To>(value);
}

// An integer as a double, such that rounding that to 16 bits is rounding the integer once: beyond 53 bits, the lowest
// 11 become one that says whether they were zero.
KOKKOS_FUNCTION inline double round_to_odd(std::int64_t value) {
  constexpr std::int64_t exact = std::int64_t{1} << 53, unit = std::int64_t{1} << 11;
  if (value > exact || value < -exact)
    value = (value & -unit) | (value % unit != 0 ? unit : 0);
  return static_cast<double>(value);
}

// By the rules of impl/kernels.hpp.
template <class To, class From>
KOKKOS_FUNCTION To convert(From value) {
  if constexpr (is_16_bit<From>)
    return convert<To>(static_cast<float>(value));
  else if constexpr (std::is_integral_v<To> && std::is_integral_v<From>)
    return saturate<To>(value);
  else if constexpr (std::is_integral_v<To>)
    return truncate<To>(value);
  else if constexpr (is_16_bit<To> && std::is_integral_v<From>)
    return To(round_to_odd(value));
  else
    return static_cast<To>(value);
}

template <class T>
struct FillZero {
  T* data;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { data[i] = T{}; }
};

template <class T>
struct Copy {
  const T* from;
  T* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = from[i]; }
};

template <class From, class To>
struct Cast {
  const From* from;
  To* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { to[i] = convert<To>(from[i]); }
};

template <class From, class To>
struct Accumulate {
  using Wide = std::common_type_t<Arithmetic<From>, Arithmetic<To>>;
  Wide factor;
  const From* from;
  To* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    to[i] = static_cast<To>(convert<Wide>(to[i]) + factor * convert<Wide>(from[i]));
  }
};

template <class T>
struct Scale {
  double factor;
  T* data;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const { data[i] = static_cast<T>(factor * convert<double>(data[i])); }
};

template <class Body>
void for_floating(DType dtype, const char* operation, Body&& body) {
  with_floating(dtype, body,
                [&] { fail(Status::NOT_SUPPORTED, operation, ": expected a floating type, found ", name(dtype)); });
}

// Bytes move in words of eight where addresses allow, which they do for everything that starts at an arena block.
template <class... Pointers>
bool are_aligned(Pointers... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % sizeof(std::uint64_t) == 0) && ...);
}

} // namespace

void fill_zero(const runtime::Execution& execution, void* data, std::int64_t bytes) {
  auto* begin = static_cast<std::byte*>(data);
  const std::int64_t words = are_aligned(data) ? bytes / 8 : 0;
  runtime::parallel_for("ostraka::fill_zero", execution, words,
                        FillZero<std::uint64_t>{static_cast<std::uint64_t*>(data)});
  runtime::parallel_for("ostraka::fill_zero", execution, bytes - 8 * words,
                        FillZero<unsigned char>{reinterpret_cast<unsigned char*>(begin + 8 * words)});
}

void copy(const runtime::Execution& execution, const void* from, void* to, std::int64_t bytes) {
  const std::int64_t words = are_aligned(from, to) ? bytes / 8 : 0;
  runtime::parallel_for("ostraka::copy", execution, words,
                        Copy<std::uint64_t>{static_cast<const std::uint64_t*>(from), static_cast<std::uint64_t*>(to)});
  runtime::parallel_for("ostraka::copy", execution, bytes - 8 * words,
                        Copy<unsigned char>{static_cast<const unsigned char*>(from) + 8 * words,
                                            static_cast<unsigned char*>(to) + 8 * words});
}

void cast(const runtime::Execution& execution, const void* from, DType from_dtype, void* to, DType to_dtype,
          std::int64_t count) {
  if (from_dtype == to_dtype)
    return copy(execution, from, to, count * size_of(to_dtype));
  with_type(from_dtype, [&](auto source) {
    with_type(to_dtype, [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      runtime::parallel_for("ostraka::cast", execution, count,
                            Cast<From, To>{static_cast<const From*>(from), static_cast<To*>(to)});
    });
  });
}

void accumulate(const runtime::Execution& execution, double factor, const void* from, DType from_dtype, void* to,
                DType to_dtype, std::int64_t count) {
  for_floating(from_dtype, "accumulate", [&](auto source) {
    for_floating(to_dtype, "accumulate", [&](auto target) {
      using Functor = Accumulate<decltype(source), decltype(target)>;
      runtime::parallel_for("ostraka::accumulate", execution, count,
                            Functor{static_cast<typename Functor::Wide>(factor),
                                    static_cast<const decltype(source)*>(from), static_cast<decltype(target)*>(to)});
    });
  });
}

void scale(const runtime::Execution& execution, double factor, DType dtype, void* data, std::int64_t count) {
  for_floating(dtype, "scale", [&](auto value) {
    using T = decltype(value);
    runtime::parallel_for("ostraka::scale", execution, count, Scale<T>{factor, static_cast<T*>(data)});
  });
}

} // namespace ostraka::buffer::kernels
