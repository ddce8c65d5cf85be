// SPDX-License-Identifier: Apache-2.0
// Element kernels on contiguous memory, to be called from Stream::launch bodies only. Counts are elements unless named
// bytes. All map zeros to zeros, so padding that is zero stays zero.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>

namespace ostraka::buffer::kernels {

void fill_zero(const runtime::Execution& execution, void* data, std::int64_t bytes);

/// The ranges must not overlap.
void copy(const runtime::Execution& execution, const void* from, void* to, std::int64_t bytes);

/// to = from in another type; the same type copies. From and to every type:
/// - To floating types values are rounded once, to nearest, ties to even; NaN stays NaN.
/// - Floating values lose their fraction in integer types (towards zero); NaN becomes 0.
/// - Values out of range saturate: to the nearest limit of an integer type, to infinity in a floating type.
void cast(const runtime::Execution& execution, const void* from, DType from_dtype, void* to, DType to_dtype,
          std::int64_t count);

/// to += factor * from, floating types only (NOT_SUPPORTED otherwise). Computed in the wider of the two types, at least
/// f32, and rounded once to the type of `to`.
void accumulate(const runtime::Execution& execution, double factor, const void* from, DType from_dtype, void* to,
                DType to_dtype, std::int64_t count);

/// data = factor * data, in f64, rounded once; floating types only (NOT_SUPPORTED otherwise).
void scale(const runtime::Execution& execution, double factor, DType dtype, void* data, std::int64_t count);

} // namespace ostraka::buffer::kernels
