// SPDX-License-Identifier: Apache-2.0
// Element kernels on contiguous memory, to be called from Stream::launch bodies only. Counts are elements unless named
// bytes. All map zeros to zeros, so padding that is zero stays zero. Floating types: f64, f32, bf16.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>

namespace ostraka::buffer::kernels {

void fill_zero(const runtime::Execution& execution, void* data, std::int64_t bytes);

/// The ranges must not overlap.
void copy(const runtime::Execution& execution, const void* from, void* to, std::int64_t bytes);

/// to = from in another floating type; the same type copies. Throws NOT_SUPPORTED naming the types otherwise.
void cast(const runtime::Execution& execution, const void* from, DType from_dtype, void* to, DType to_dtype,
          std::int64_t count);

/// to += factor * from, computed in the wider of the two types
void accumulate(const runtime::Execution& execution, double factor, const void* from, DType from_dtype, void* to,
                DType to_dtype, std::int64_t count);

} // namespace ostraka::buffer::kernels
