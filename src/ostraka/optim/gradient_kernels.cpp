// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/dtype.hpp>
#include <ostraka/optim/impl/gradient_kernels.hpp>
#include <ostraka/optim/impl/main_type.hpp>
#include <ostraka/runtime/kokkos_execution.hpp>

#include <cmath>

namespace ostraka::optim::kernels {

namespace {

constexpr std::int64_t block = 2048; // elements that one index of a reduction takes
constexpr int lanes = 8;             // independent partial results, which compilers keep in vectors

struct Sum {
  KOKKOS_FUNCTION void operator()(double& sum, double value) const { sum += value; }
};

// The larger one, or NaN.
struct Maximum {
  KOKKOS_FUNCTION void operator()(double& largest, double value) const {
    largest = value > largest || value != value ? value : largest;
  }
};

// Joins value(i) for i in [begin, end), none of them negative.
template <class Join, class Value>
KOKKOS_FUNCTION double join_range(std::int64_t begin, std::int64_t end, const Join& join, const Value& value) {
  double lane[lanes] = {};
  std::int64_t i = begin;
  for (; i + lanes <= end; i += lanes)
    for (int l = 0; l < lanes; ++l)
      join(lane[l], value(i + l));
  for (; i < end; ++i)
    join(lane[0], value(i));
  for (int l = 1; l < lanes; ++l)
    join(lane[0], lane[l]);
  return lane[0];
}

KOKKOS_FUNCTION void add(NormPart& sum, const NormPart& part) {
  sum.small += part.small;
  sum.medium += part.medium;
  sum.large += part.large;
}

// Base of functors that reduce a block.
template <class T, class Value>
struct Blocks {
  using value_type = Value;
  const T* data;
  std::int64_t count;

  KOKKOS_FUNCTION std::int64_t end(std::int64_t k) const { return (k + 1) * block < count ? (k + 1) * block : count; }
  KOKKOS_FUNCTION void init(Value& value) const { value = Value{}; }
};

template <class T>
struct Squares : Blocks<T, NormPart> {
  KOKKOS_FUNCTION void operator()(std::int64_t k, NormPart& part) const {
    const std::int64_t begin = k * block, end = this->end(k);
    const T* from = this->data;
    const double sum = join_range(begin, end, Sum{}, [=](std::int64_t i) { return double(from[i]) * double(from[i]); });
    if (sizeof(T) == sizeof(float) || (sum >= 0x1p-880 && sum <= 0x1p900)) // whatever was lost is far below
      part.medium += sum;
    else if (sum != 0 || join_range(begin, end, Sum{}, [=](std::int64_t i) { return Kokkos::abs(from[i]); }) != 0)
      for (std::int64_t i = begin; i < end; ++i)
        add_square(part, static_cast<double>(from[i]));
  }
  KOKKOS_FUNCTION void join(NormPart& sum, const NormPart& part) const { add(sum, part); }

  static KOKKOS_FUNCTION void add_square(NormPart& part, double value) {
    const double size = Kokkos::abs(value);
    if (size > 0x1p450)
      part.large += (size * 0x1p-600) * (size * 0x1p-600);
    else if (size < 0x1p-450)
      part.small += (size * 0x1p600) * (size * 0x1p600);
    else
      part.medium += size * size; // NaN, too
  }
};

template <class T>
struct Sizes : Blocks<T, NormPart> {
  KOKKOS_FUNCTION void operator()(std::int64_t k, NormPart& part) const {
    const T* from = this->data;
    part.medium += join_range(k * block, this->end(k), Sum{}, [=](std::int64_t i) { return Kokkos::abs(from[i]); });
  }
  KOKKOS_FUNCTION void join(NormPart& sum, const NormPart& part) const { add(sum, part); }
};

template <class T>
struct Largest : Blocks<T, NormPart> {
  KOKKOS_FUNCTION void operator()(std::int64_t k, NormPart& part) const {
    const T* from = this->data;
    const auto size = [=](std::int64_t i) { return Kokkos::abs(from[i]); };
    Maximum{}(part.medium, join_range(k * block, this->end(k), Maximum{}, size));
  }
  KOKKOS_FUNCTION void join(NormPart& sum, const NormPart& part) const { Maximum{}(sum.medium, part.medium); }
};

// x - x is 0, or NaN where x is not finite.
template <class T>
struct Differences : Blocks<T, double> {
  KOKKOS_FUNCTION void operator()(std::int64_t k, double& sum) const {
    const T* from = this->data;
    sum += join_range(k * block, this->end(k), Sum{}, [=](std::int64_t i) { return from[i] - from[i]; });
  }
  KOKKOS_FUNCTION void join(double& sum, double part) const { sum += part; }
};

template <class Functor>
void reduce(const char* label, const runtime::Execution& execution, const Functor& functor,
            typename Functor::value_type* result) {
  runtime::parallel_reduce(label, execution, (functor.count + block - 1) / block, functor, result);
}

} // namespace

void norm_part(const runtime::Execution& execution, Norm norm, DType dtype, const void* data, std::int64_t count,
               NormPart* part) {
  with_main_type(dtype, "gradient_norm", [&](auto value) {
    using T = decltype(value);
    const auto* from = static_cast<const T*>(data);
    const char* label = "ostraka::gradient_norm";
    norm == Norm::l1   ? reduce(label, execution, Sizes<T>{{from, count}}, part)
    : norm == Norm::l2 ? reduce(label, execution, Squares<T>{{from, count}}, part)
                       : reduce(label, execution, Largest<T>{{from, count}}, part);
  });
}

void join(Norm norm, NormPart& sum, const NormPart& part) {
  if (norm == Norm::max)
    Maximum{}(sum.medium, part.medium);
  else
    add(sum, part);
}

double finish(Norm norm, const NormPart& sum) {
  if (norm != Norm::l2)
    return sum.medium;
  if (sum.large > 0)
    return std::sqrt(sum.large + sum.medium * 0x1p-600 * 0x1p-600) * 0x1p600; // the small ones are below its last digit
  if (sum.medium != 0)
    return std::sqrt(sum.medium + sum.small * 0x1p-600 * 0x1p-600);
  return std::sqrt(sum.small) * 0x1p-600;
}

void add_differences(const runtime::Execution& execution, DType dtype, const void* data, std::int64_t count,
                     double* sum) {
  with_main_type(dtype, "check_finite", [&](auto value) {
    using T = decltype(value);
    reduce("ostraka::check_finite", execution, Differences<T>{{static_cast<const T*>(data), count}}, sum);
  });
}

} // namespace ostraka::optim::kernels
