// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/impl/sums.hpp>
#include <ostraka/comm/impl/vectors.hpp>

#include <algorithm>
#include <array>
#include <cstring>

namespace ostraka::comm::impl {

namespace {

// Each body is inlined into one function per set of instructions.
#define OSTRAKA_BODY [[gnu::always_inline]] inline

template <class T, std::size_t n>
OSTRAKA_BODY void sum_of(T* out, const T* const* sources, std::int64_t count, T scale) {
  std::array<const T*, n> from;
  std::copy_n(sources, n, from.begin());
  // An out that is a source is read before it is written, element by element.
  OSTRAKA_INDEPENDENT
  for (std::int64_t i = 0; i < count; ++i) {
    T total = from[0][i];
    for (std::size_t k = 1; k < n; ++k)
      total += from[k][i];
    out[i] = total * scale;
  }
}

// The float as which a bf16 in the lower or upper half of a word counts; the upper half of a float, rounded to nearest.
OSTRAKA_BODY float low(std::uint32_t pair) { return __builtin_bit_cast(float, pair << 16); }
OSTRAKA_BODY float high(std::uint32_t pair) { return __builtin_bit_cast(float, pair & 0xffff0000u); }
OSTRAKA_BODY std::uint32_t rounded(float value) {
  const auto word = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t nearest = word + 0x7fffu + ((word >> 16) & 1u), quiet = word | 0x400000u;
  return (word & 0x7fffffffu) > 0x7f800000u ? quiet : nearest;
}

// At any address.
OSTRAKA_BODY std::uint32_t load_pair(const bfloat16* from) {
  std::uint32_t pair;
  std::memcpy(&pair, from, sizeof pair);
  return pair;
}

// Two in a word: no lane is crossed, so it vectorises everywhere. Which half is which does not matter.
template <std::size_t n>
OSTRAKA_BODY void sum_pairs(bfloat16* out, const bfloat16* const* sources, std::int64_t count, float scale) {
  std::array<const bfloat16*, n> from;
  std::copy_n(sources, n, from.begin());
  OSTRAKA_INDEPENDENT
  for (std::int64_t i = 0; i < count / 2; ++i) {
    const std::uint32_t first = load_pair(from[0] + 2 * i);
    float lower = low(first), upper = high(first);
    for (std::size_t k = 1; k < n; ++k) {
      const std::uint32_t next = load_pair(from[k] + 2 * i);
      lower += low(next);
      upper += high(next);
    }
    const std::uint32_t pair = (rounded(lower * scale) >> 16) | (rounded(upper * scale) & 0xffff0000u);
    std::memcpy(static_cast<void*>(out + 2 * i), &pair, sizeof pair);
  }
  if (count % 2 != 0) {
    float total = static_cast<float>(from[0][count - 1]);
    for (std::size_t k = 1; k < n; ++k)
      total += static_cast<float>(from[k][count - 1]);
    out[count - 1] = bfloat16(total * scale);
  }
}

template <class T>
OSTRAKA_BODY void sum_few(T* out, const T* const* sources, std::size_t n, std::int64_t count, T scale) {
  static_assert(most_in_registers == 4);
  if (n == 2)
    sum_of<T, 2>(out, sources, count, scale);
  else if (n == 3)
    sum_of<T, 3>(out, sources, count, scale);
  else
    sum_of<T, 4>(out, sources, count, scale);
}

OSTRAKA_WIDEST void sum_f64(double* out, const double* const* sources, std::size_t n, std::int64_t count,
                            double scale) {
  sum_few(out, sources, n, count, scale);
}
OSTRAKA_WIDEST void sum_f32(float* out, const float* const* sources, std::size_t n, std::int64_t count, float scale) {
  sum_few(out, sources, n, count, scale);
}
OSTRAKA_WIDEST void sum_bf16(bfloat16* out, const bfloat16* const* sources, std::size_t n, std::int64_t count,
                             float scale) {
  if (n == 2)
    sum_pairs<2>(out, sources, count, scale);
  else if (n == 3)
    sum_pairs<3>(out, sources, count, scale);
  else
    sum_pairs<4>(out, sources, count, scale);
}

// In rank order: what there is so far is the first source of the next few.
template <class T, class Sum>
void sum_in_turn(Sum&& sum_few, T* out, std::span<const T* const> sources, std::int64_t count, T scale) {
  std::size_t done = std::min(sources.size(), most_in_registers);
  sum_few(out, sources.data(), done, count, done == sources.size() ? scale : T{1});
  while (done < sources.size()) {
    const std::size_t next = std::min(sources.size() - done, most_in_registers - 1);
    std::array<const T*, most_in_registers> some{out};
    std::copy_n(sources.data() + done, next, some.begin() + 1);
    done += next;
    sum_few(out, some.data(), next + 1, count, done == sources.size() ? scale : T{1});
  }
}

// A line at a time, which leaves as one: results that first stand in a block of the cache cost a third more.
template <class T, std::size_t n>
void sum_lines([[maybe_unused]] T* out, [[maybe_unused]] const T* const* sources, [[maybe_unused]] std::int64_t count,
               [[maybe_unused]] T scale) {
#if defined(__SSE2__)
  typedef T Vector __attribute__((vector_size(16)));
  constexpr std::int64_t width = 16 / sizeof(T), line = 64 / sizeof(T);
  std::array<const T*, n> from;
  std::copy_n(sources, n, from.begin());
  for (std::int64_t i = 0; i < count; i += line)
    for (std::int64_t at = i; at < i + line; at += width) {
      Vector total, next;
      std::memcpy(&total, from[0] + at, sizeof total);
      for (std::size_t k = 1; k < n; ++k) {
        std::memcpy(&next, from[k] + at, sizeof next);
        total += next;
      }
      total *= scale;
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + at), reinterpret_cast<__m128i>(total));
    }
#endif
}

// Ends that are no whole lines go through the caches.
template <class T>
void sum_ranges_around(T* out, std::span<const T* const> sources, std::int64_t count, T scale) {
  constexpr std::int64_t line = 64 / sizeof(T);
  const auto past = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(out) / sizeof(T) % line);
  const std::int64_t begin = std::min((line - past) % line, count), end = begin + (count - begin) / line * line;
  std::array<const T*, most_in_registers> from{};
  const auto from_element = [&](std::int64_t first) {
    std::transform(sources.begin(), sources.end(), from.begin(), [&](const T* source) { return source + first; });
    return std::span<const T* const>(from.data(), sources.size());
  };
  sum(out, sources, begin, scale);
  const auto lines = from_element(begin);
  if (sources.size() == 2)
    sum_lines<T, 2>(out + begin, lines.data(), end - begin, scale);
  else if (sources.size() == 3)
    sum_lines<T, 3>(out + begin, lines.data(), end - begin, scale);
  else
    sum_lines<T, 4>(out + begin, lines.data(), end - begin, scale);
  sum(out + end, from_element(end), count - end, scale);
}

} // namespace

void sum(double* out, std::span<const double* const> sources, std::int64_t count, double scale) {
  sum_in_turn(sum_f64, out, sources, count, scale);
}
void sum(float* out, std::span<const float* const> sources, std::int64_t count, float scale) {
  sum_in_turn(sum_f32, out, sources, count, scale);
}
void sum(bfloat16* out, std::span<const bfloat16* const> sources, std::int64_t count, float scale) {
  sum_bf16(out, sources.data(), sources.size(), count, scale);
}

void sum_around(double* out, std::span<const double* const> sources, std::int64_t count, double scale) {
  sum_ranges_around(out, sources, count, scale);
}
void sum_around(float* out, std::span<const float* const> sources, std::int64_t count, float scale) {
  sum_ranges_around(out, sources, count, scale);
}

OSTRAKA_WIDEST void widen(float* total, const bfloat16* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(values[i].bits) << 16);
}
OSTRAKA_WIDEST void add_wide(float* total, const bfloat16* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] += __builtin_bit_cast(float, static_cast<std::uint32_t>(values[i].bits) << 16);
}
OSTRAKA_WIDEST void round(bfloat16* results, const float* total, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    results[i].bits = static_cast<std::uint16_t>(rounded(total[i]) >> 16);
}

} // namespace ostraka::comm::impl
