// SPDX-License-Identifier: Apache-2.0
#include "compare.hpp"

#include <ostraka/base/with_type.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstring>
#include <limits>

namespace ostraka::tool {
namespace {

template <class T>
double to_double(T value) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<double>(value);
  else
    return static_cast<float>(value);
}

/// |a - b|; of integers without the rounding of large ones to doubles before.
template <class A, class B>
double distance(A a, B b) {
  if constexpr (std::integral<A> && std::integral<B>) {
    const std::int64_t wide_a = a, wide_b = b;
    const auto low = static_cast<std::uint64_t>(std::min(wide_a, wide_b));
    return static_cast<double>(static_cast<std::uint64_t>(std::max(wide_a, wide_b)) - low);
  } else {
    return std::fabs(to_double(a) - to_double(b));
  }
}

template <class A, class B>
bool is_same(A a, B b) {
  if constexpr (std::is_same_v<A, B>)
    return std::memcmp(&a, &b, sizeof(A)) == 0;
  else if constexpr (std::integral<A> && std::integral<B>)
    return std::int64_t{a} == std::int64_t{b};
  else
    return to_double(a) == to_double(b) || (std::isnan(to_double(a)) && std::isnan(to_double(b)));
}

template <class T>
T load(std::span<const std::byte> bytes, std::size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

template <class A, class B>
void add(A a, B b, std::int64_t index, const Tolerance& tolerance, ValueDifference& difference) {
  const double x = to_double(a), y = to_double(b), size = std::max(std::fabs(x), std::fabs(y));
  const double absolute = distance(a, b);
  // NaN and infinity are within no tolerance.
  const bool is_tolerated = tolerance.absolute > 0 || tolerance.relative > 0;
  if (is_tolerated && std::isfinite(size) && absolute <= tolerance.absolute + tolerance.relative * size)
    return;
  if (difference.elements++ == 0)
    difference.first = index;
  difference.only_one_nan += std::isnan(x) != std::isnan(y);
  if (std::isnan(x) || std::isnan(y))
    return;
  const bool is_infinite = std::isinf(absolute);
  difference.absolute = std::max(difference.absolute, absolute);
  if (absolute > 0)
    difference.relative =
        std::max(difference.relative, is_infinite ? std::numeric_limits<double>::infinity() : absolute / size);
}

template <class A, class B>
void compare_as(std::span<const std::byte> a, std::span<const std::byte> b, std::int64_t first,
                const Tolerance& tolerance, ValueDifference& difference) {
  for (std::size_t i = 0; i < a.size() / sizeof(A); ++i) {
    const A x = load<A>(a, i);
    const B y = load<B>(b, i);
    if (!is_same(x, y))
      add(x, y, first + static_cast<std::int64_t>(i), tolerance, difference);
  }
}

} // namespace

void compare(DType type_a, std::span<const std::byte> a, DType type_b, std::span<const std::byte> b, std::int64_t first,
             const Tolerance& tolerance, ValueDifference& difference) {
  if (type_a == type_b && std::memcmp(a.data(), b.data(), a.size()) == 0)
    return;
  with_type(type_a, [&]<class A>(A) {
    with_type(type_b, [&]<class B>(B) { compare_as<A, B>(a, b, first, tolerance, difference); });
  });
}

} // namespace ostraka::tool
