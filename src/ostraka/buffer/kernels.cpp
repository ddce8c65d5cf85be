// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/base/float16.hpp>
#include <ostraka/buffer/impl/kernels.hpp>
#include <ostraka/runtime/kokkos_execution.hpp>

#include <type_traits>

namespace ostraka::buffer::kernels {

namespace {

// The type in which a value of T is computed with.
template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, bfloat16>, float, T>;

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
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    to[i] = static_cast<To>(static_cast<Arithmetic<To>>(static_cast<Arithmetic<From>>(from[i])));
  }
};

template <class From, class To>
struct Accumulate {
  using Wide = std::common_type_t<Arithmetic<From>, Arithmetic<To>>;
  Wide factor;
  const From* from;
  To* to;
  KOKKOS_FUNCTION void operator()(std::int64_t i) const {
    const Wide sum =
        static_cast<Arithmetic<To>>(to[i]) + factor * static_cast<Wide>(static_cast<Arithmetic<From>>(from[i]));
    to[i] = static_cast<To>(static_cast<Arithmetic<To>>(sum));
  }
};

// Calls body with a value of the C++ type that stands for a floating `dtype`.
template <class Body>
void with_floating(DType dtype, const char* operation, Body&& body) {
  switch (dtype) {
  case DType::f64:
    return body(double{});
  case DType::f32:
    return body(float{});
  case DType::bf16:
    return body(bfloat16{});
  default:
    fail(Status::NOT_SUPPORTED, operation, ": expected f64, f32 or bf16, found ", name(dtype));
  }
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
  with_floating(from_dtype, "cast", [&](auto source) {
    with_floating(to_dtype, "cast", [&](auto target) {
      using From = decltype(source);
      using To = decltype(target);
      runtime::parallel_for("ostraka::cast", execution, count,
                            Cast<From, To>{static_cast<const From*>(from), static_cast<To*>(to)});
    });
  });
}

void accumulate(const runtime::Execution& execution, double factor, const void* from, DType from_dtype, void* to,
                DType to_dtype, std::int64_t count) {
  with_floating(from_dtype, "accumulate", [&](auto source) {
    with_floating(to_dtype, "accumulate", [&](auto target) {
      using Functor = Accumulate<decltype(source), decltype(target)>;
      runtime::parallel_for("ostraka::accumulate", execution, count,
                            Functor{static_cast<typename Functor::Wide>(factor),
                                    static_cast<const decltype(source)*>(from), static_cast<decltype(target)*>(to)});
    });
  });
}

} // namespace ostraka::buffer::kernels
