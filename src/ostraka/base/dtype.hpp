// SPDX-License-Identifier: Apache-2.0
// Element types that buffers hold.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstdint>

namespace ostraka {

/// Numbers are part of the C ABI (capi/include/ostraka/types.h).
enum class DType : std::int32_t { f64 = 0, f32 = 1, bf16 = 2, f16 = 3, i64 = 4, i32 = 5, u8 = 6 };

/// Bytes per element; throws INVALID_ARGUMENT for a number that is no type.
OSTRAKA_API std::int64_t size_of(DType dtype);

/// "f64", "bf16", ...; throws INVALID_ARGUMENT for a number that is no type.
OSTRAKA_API const char* name(DType dtype);

constexpr bool is_floating(DType dtype) noexcept {
  return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16 || dtype == DType::f16;
}

} // namespace ostraka
