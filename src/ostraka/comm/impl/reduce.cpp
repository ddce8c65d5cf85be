// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/float16.hpp>
#include <ostraka/comm/impl/reduce.hpp>

#include <algorithm>
#include <array>
#include <cstring>
#include <type_traits>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

// The widest vectors of the machine that runs it, not of the one that built it. (Sanitizers run before it can choose.)
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) &&               \
    !defined(__SANITIZE_THREAD__)
#define OSTRAKA_WIDEST __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define OSTRAKA_WIDEST
#endif

namespace ostraka::comm::impl {

namespace {

using layout::ReduceOp;

constexpr std::int64_t block_bytes = 2048;                  // of each source and round: sources and sum stay in L1
constexpr std::int64_t cache_bytes = std::int64_t{1} << 20; // of a core: what is larger is written around it

// The type in which values of T are reduced.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, bfloat16> || std::is_same_v<T, float16>, float, T>;

// Integers wrap around, as MPI's do.
template <class W>
using Modular = typename std::conditional_t<std::is_integral_v<W>, std::make_unsigned<W>, std::type_identity<W>>::type;

// NaN where any of the two is.
template <class W>
W larger(W total, W value) {
  return value > total || value != value ? value : total;
}
template <class W>
W smaller(W total, W value) {
  return value < total || value != value ? value : total;
}

template <class W>
W apply(W a, W b, ReduceOp op) {
  switch (op) {
  case ReduceOp::max:
    return larger(a, b);
  case ReduceOp::min:
    return smaller(a, b);
  case ReduceOp::prod:
    return static_cast<W>(static_cast<Modular<W>>(a) * static_cast<Modular<W>>(b));
  default: // mean is a sum that is divided afterwards
    return static_cast<W>(static_cast<Modular<W>>(a) + static_cast<Modular<W>>(b));
  }
}

// total[i] = op(total[i], values[i])
template <class T>
void combine(Wide<T>* total, const T* values, std::int64_t count, ReduceOp op) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] = apply(total[i], static_cast<Wide<T>>(values[i]), op);
}

// The sums that training does all day, in vectors.
OSTRAKA_WIDEST void add(float* total, const float* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] += values[i];
}
OSTRAKA_WIDEST void add(double* total, const double* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] += values[i];
}
OSTRAKA_WIDEST void add_two(float* total, const float* a, const float* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] = a[i] + b[i];
}
OSTRAKA_WIDEST void add_two(double* total, const double* a, const double* b, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] = a[i] + b[i];
}
OSTRAKA_WIDEST void widen(float* total, const std::uint16_t* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] = __builtin_bit_cast(float, static_cast<std::uint32_t>(values[i]) << 16);
}
OSTRAKA_WIDEST void add_wide(float* total, const std::uint16_t* values, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i)
    total[i] += __builtin_bit_cast(float, static_cast<std::uint32_t>(values[i]) << 16);
}
// As bfloat16(float), written so that it vectorises.
OSTRAKA_WIDEST void round(std::uint16_t* results, const float* total, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto word = __builtin_bit_cast(std::uint32_t, total[i]);
    const std::uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    const std::uint32_t quiet = (word >> 16) | 0x40u;
    results[i] = static_cast<std::uint16_t>((word & 0x7fffffffu) > 0x7f800000u ? quiet : rounded);
  }
}

bool is_sum(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::mean; }

// total = the reduction of all sources from element `begin` on.
template <class T>
void gather(Wide<T>* total, std::span<const std::byte* const> sources, std::int64_t begin, std::int64_t count,
            ReduceOp op) {
  const auto source = [&](std::size_t k) { return reinterpret_cast<const T*>(sources[k]) + begin; };
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>)
    if (is_sum(op) && sources.size() > 1) {
      add_two(total, source(0), source(1), count);
      for (std::size_t k = 2; k < sources.size(); ++k)
        add(total, source(k), count);
      return;
    }
  if constexpr (std::is_same_v<T, bfloat16>)
    if (is_sum(op)) {
      const auto bits = [&](std::size_t k) { return reinterpret_cast<const std::uint16_t*>(sources[k]) + begin; };
      widen(total, bits(0), count);
      for (std::size_t k = 1; k < sources.size(); ++k)
        add_wide(total, bits(k), count);
      return;
    }
  for (std::int64_t i = 0; i < count; ++i)
    total[i] = static_cast<Wide<T>>(source(0)[i]);
  for (std::size_t k = 1; k < sources.size(); ++k)
    combine<T>(total, source(k), count, op);
}

template <class T>
void narrow_to(T* results, const Wide<T>* total, std::int64_t count) {
  if constexpr (std::is_same_v<T, bfloat16>)
    round(reinterpret_cast<std::uint16_t*>(results), total, count);
  else
    for (std::int64_t i = 0; i < count; ++i)
      results[i] = static_cast<T>(total[i]);
}

// Around the caches where the target is aligned, which it is except at the ends of a range.
void stream(std::byte* to, const std::byte* from, std::int64_t bytes) {
#if defined(__SSE2__)
  constexpr std::int64_t vector = sizeof(__m128i);
  const auto address = reinterpret_cast<std::uintptr_t>(to);
  const std::int64_t head = std::min<std::int64_t>((vector - address % vector) % vector, bytes);
  std::memcpy(to, from, static_cast<std::size_t>(head));
  std::int64_t at = head;
  for (; at + vector <= bytes; at += vector)
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + at), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + at)));
  std::memcpy(to + at, from + at, static_cast<std::size_t>(bytes - at));
#else
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
#endif
}

// Streaming stores are not ordered with others: whoever publishes a result must see them done.
void fence() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

// From sources of T to results of R, which is T or its wide type or has it as the wide type. Sums are divided.
template <class T, class R>
void reduce_blocks(ReduceOp op, std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
                   std::int64_t count, std::int64_t divisor) {
  constexpr std::int64_t block = block_bytes / static_cast<std::int64_t>(sizeof(T));
  constexpr auto width = static_cast<std::int64_t>(sizeof(R));
  alignas(64) std::array<Wide<T>, block> total;
  alignas(64) std::array<R, block> narrowed;
  const bool streams = count * width > cache_bytes;
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t size = std::min(block, count - begin);
    gather<T>(total.data(), sources, begin, size, op);
    if (divisor != 1)
      for (std::int64_t i = 0; i < size; ++i)
        total[i] = static_cast<Wide<T>>(total[i] / static_cast<Wide<T>>(divisor));
    const auto* results = reinterpret_cast<const std::byte*>(total.data());
    if constexpr (!std::is_same_v<R, Wide<T>>) {
      narrow_to<R>(narrowed.data(), total.data(), size);
      results = reinterpret_cast<const std::byte*>(narrowed.data());
    }
    for (std::byte* out : outs) {
      std::byte* place = out + begin * width;
      const std::int64_t bytes = size * width;
      if (streams)
        stream(place, results, bytes);
      else
        std::memcpy(place, results, static_cast<std::size_t>(bytes));
    }
  }
  if (streams)
    fence();
}

// Calls body with a value of the type.
template <class Body>
void for_type(DType dtype, Body&& body) {
  switch (dtype) {
  case DType::f64:
    return body(double{});
  case DType::f32:
    return body(float{});
  case DType::bf16:
    return body(bfloat16{});
  case DType::f16:
    return body(float16{});
  case DType::i64:
    return body(std::int64_t{});
  case DType::i32:
    return body(std::int32_t{});
  case DType::u8:
    return body(std::uint8_t{});
  }
}

} // namespace

void reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
            std::int64_t count) {
  const std::int64_t divisor = op == ReduceOp::mean ? static_cast<std::int64_t>(sources.size()) : 1;
  for_type(dtype, [&](auto value) {
    using T = decltype(value);
    reduce_blocks<T, T>(op, sources, outs, count, divisor);
  });
}

DType partial_type(DType dtype) { return dtype == DType::bf16 || dtype == DType::f16 ? DType::f32 : dtype; }

void reduce_partly(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, std::byte* out,
                   std::int64_t count) {
  for_type(dtype, [&](auto value) {
    using T = decltype(value);
    reduce_blocks<T, Wide<T>>(op, sources, {&out, 1}, count, 1);
  });
}

void reduce_partial(DType dtype, ReduceOp op, std::span<const std::byte* const> partial,
                    std::span<std::byte* const> outs, std::int64_t count, int ranks) {
  const std::int64_t divisor = op == ReduceOp::mean ? ranks : 1;
  for_type(dtype, [&](auto value) {
    using T = decltype(value);
    reduce_blocks<Wide<T>, T>(op, partial, outs, count, divisor);
  });
}

void copy_bytes(const std::byte* from, std::byte* to, std::int64_t bytes) {
  if (bytes <= cache_bytes) {
    if (bytes > 0)
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  stream(to, from, bytes);
  fence();
}

} // namespace ostraka::comm::impl
