// SPDX-License-Identifier: Apache-2.0
// The sums that training does all day, in vectors.
#pragma once

#include <ostraka/base/float16.hpp>

#include <cstdint>
#include <span>
#include <type_traits>

namespace ostraka::comm::impl {

/// So many sources are summed in registers.
constexpr std::size_t most_in_registers = 4;

template <class T>
constexpr bool has_vector_sum = std::is_same_v<T, double> || std::is_same_v<T, float> || std::is_same_v<T, bfloat16>;

/// out[i] = scale * (sources[0][i] + sources[1][i] + ...), 2 <= sources. Up to most_in_registers `out` may be one of
/// the sources; beyond, which bf16 cannot, it overlaps none.
void sum(double* out, std::span<const double* const> sources, std::int64_t count, double scale);
void sum(float* out, std::span<const float* const> sources, std::int64_t count, float scale);
void sum(bfloat16* out, std::span<const bfloat16* const> sources, std::int64_t count, float scale);

/// The same around the caches, straight from registers, of up to most_in_registers sources; `out` overlaps none. Call
/// fence() before others are told.
void sum_around(double* out, std::span<const double* const> sources, std::int64_t count, double scale);
void sum_around(float* out, std::span<const float* const> sources, std::int64_t count, float scale);

/// total[i] = or += the value; results[i] = as bfloat16(float).
void widen(float* total, const bfloat16* values, std::int64_t count);
void add_wide(float* total, const bfloat16* values, std::int64_t count);
void round(bfloat16* results, const float* total, std::int64_t count);

} // namespace ostraka::comm::impl
