// SPDX-License-Identifier: Apache-2.0
// Stores around the caches; where a processor has none, plain ones.
#pragma once

#include <ostraka/base/vectors.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace ostraka::comm::impl {

/// Whether there are stores around the caches.
#if defined(__SSE2__)
constexpr bool has_streams = true;
#else
constexpr bool has_streams = false;
#endif

/// A copy around the caches where the target is aligned to a vector, which it is except at the ends of a range.
inline void stream(std::byte* to, const std::byte* from, std::int64_t bytes) {
#if defined(__SSE2__)
  constexpr std::int64_t vector = sizeof(__m128i), line = 4 * vector;
  const auto place = [](const std::byte* bytes_at, std::byte* target) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(target), _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes_at)));
  };
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  std::int64_t at = std::min<std::int64_t>((vector - address % vector) % vector, bytes);
  if (at > 0)
    std::memcpy(to, from, static_cast<std::size_t>(at));
  for (; at + line <= bytes; at += line)
    for (std::int64_t k = 0; k < line; k += vector)
      place(from + at + k, to + at + k);
  for (; at + vector <= bytes; at += vector)
    place(from + at, to + at);
  if (at < bytes)
    std::memcpy(to + at, from + at, static_cast<std::size_t>(bytes - at));
#else
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}

/// Streamed stores are not ordered with others, not even by a release: fence before a result is published.
inline void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

} // namespace ostraka::comm::impl
