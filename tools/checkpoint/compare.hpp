// SPDX-License-Identifier: Apache-2.0
// How the values of two tensors differ.
#pragma once

#include <ostraka/base/dtype.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ostraka::tool {

/// |a - b| up to absolute + relative * max(|a|, |b|) is no difference.
struct Tolerance {
  double absolute = 0, relative = 0;
};

struct ValueDifference {
  std::int64_t elements = 0;     // that differ: in their bits where the types are equal, else in their value
  std::int64_t only_one_nan = 0; // of them
  std::int64_t first = -1;       // index of the first one
  double absolute = 0;           // largest |a - b|, NaN left out
  double relative = 0;           // largest |a - b| / max(|a|, |b|), NaN left out
};

/// Adds to `difference` what a block of each tensor shows; `first` is the index of the first element of both.
void compare(DType type_a, std::span<const std::byte> a, DType type_b, std::span<const std::byte> b, std::int64_t first,
             const Tolerance& tolerance, ValueDifference& difference);

} // namespace ostraka::tool
