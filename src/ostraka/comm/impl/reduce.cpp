// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/float16.hpp>
#include <ostraka/comm/impl/reduce.hpp>
#include <ostraka/comm/impl/sums.hpp>
#include <ostraka/comm/impl/vectors.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>
#include <vector>

namespace ostraka::comm::impl {

namespace {

using layout::ReduceOp;

constexpr std::int64_t block_bytes = 4096; // of each source and round: results stay in L1

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

bool is_sum(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::mean; }

// total = the reduction of all sources from element `begin` on.
template <class T>
void gather(Wide<T>* total, std::span<const T* const> sources, std::int64_t begin, std::int64_t count, ReduceOp op) {
  if constexpr (std::is_same_v<T, bfloat16>)
    if (is_sum(op)) {
      widen(total, sources[0] + begin, count);
      for (const T* source : sources.subspan(1))
        add_wide(total, source + begin, count);
      return;
    }
  for (std::int64_t i = 0; i < count; ++i)
    total[i] = static_cast<Wide<T>>(sources[0][begin + i]);
  for (const T* source : sources.subspan(1))
    combine<T>(total, source + begin, count, op);
}

template <class T>
void narrow_to(T* results, const Wide<T>* total, std::int64_t count) {
  if constexpr (std::is_same_v<T, bfloat16>)
    round(results, total, count);
  else
    for (std::int64_t i = 0; i < count; ++i)
      results[i] = static_cast<T>(total[i]);
}

template <class T>
class Reduction {
public:
  Reduction(ReduceOp op, std::span<const std::byte* const> sources, std::span<std::byte* const> outs, bool is_large)
      : op_(op), streams_(is_large && !is_any_of(outs, sources)) {
    for (const std::byte* source : sources)
      sources_.push_back(reinterpret_cast<const T*>(source));
    for (std::byte* out : outs)
      outs_.push_back(reinterpret_cast<T*>(out));
    from_.resize(sources_.size());
  }

  void run(std::int64_t count) {
    if (sums_in_vectors() && writes_at_once())
      return sum_to(outs_[0], 0, count);
    constexpr std::int64_t block = block_bytes / static_cast<std::int64_t>(sizeof(T));
    alignas(64) std::array<T, block> results;
    for (std::int64_t begin = 0; begin < count; begin += block) {
      const std::int64_t size = std::min(block, count - begin);
      if (sums_in_vectors())
        sum_to(results.data(), begin, size);
      else
        reduce_to(results.data(), begin, size);
      for (T* out : outs_)
        write(out + begin, results.data(), size);
    }
    if (streams_)
      fence();
  }

private:
  // What was just read is in a cache anyway: streams are three times slower there.
  static bool is_any_of(std::span<std::byte* const> outs, std::span<const std::byte* const> sources) {
    return std::find_first_of(outs.begin(), outs.end(), sources.begin(), sources.end()) != outs.end();
  }
  // A mean over 2^k ranks is a sum with a factor, exactly.
  bool sums_in_vectors() const {
    const bool has_factor = op_ == ReduceOp::sum || (op_ == ReduceOp::mean && std::has_single_bit(sources_.size()));
    const bool fits = !std::is_same_v<T, bfloat16> || sources_.size() <= most_in_registers;
    return has_vector_sum<T> && has_factor && sources_.size() > 1 && fits;
  }
  bool writes_at_once() const { return !streams_ && outs_.size() == 1 && sources_.size() <= most_in_registers; }

  void sum_to(T* results, std::int64_t begin, std::int64_t count) {
    if constexpr (has_vector_sum<T>) {
      std::transform(sources_.begin(), sources_.end(), from_.begin(), [&](const T* source) { return source + begin; });
      const auto factor = Wide<T>{1} / static_cast<Wide<T>>(op_ == ReduceOp::mean ? from_.size() : 1);
      sum(results, std::span<const T* const>(from_), count, factor);
    }
  }

  void reduce_to(T* results, std::int64_t begin, std::int64_t count) const {
    alignas(64) std::array<Wide<T>, block_bytes / sizeof(T)> total;
    gather<T>(total.data(), sources_, begin, count, op_);
    if (op_ == ReduceOp::mean)
      for (std::int64_t i = 0; i < count; ++i)
        total[i] = static_cast<Wide<T>>(total[i] / static_cast<Wide<T>>(sources_.size()));
    narrow_to<T>(results, total.data(), count);
  }

  void write(T* out, const T* results, std::int64_t count) const {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(T));
    if (streams_)
      stream(reinterpret_cast<std::byte*>(out), reinterpret_cast<const std::byte*>(results), bytes);
    else
      std::memcpy(static_cast<void*>(out), results, static_cast<std::size_t>(bytes));
  }

  ReduceOp op_;
  bool streams_;
  std::vector<const T*> sources_;
  std::vector<const T*> from_; ///< the sources in a round
  std::vector<T*> outs_;
};

template <class T>
void reduce_all(ReduceOp op, std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
                std::int64_t count, std::int64_t streams_above) {
  Reduction<T>(op, sources, outs, count * static_cast<std::int64_t>(sizeof(T)) > streams_above).run(count);
}

} // namespace

std::int64_t cached_bytes() {
#if defined(_SC_LEVEL2_CACHE_SIZE)
  static const std::int64_t core_cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
  if (core_cache > 0)
    return 2 * core_cache;
#endif
  return std::int64_t{1} << 21;
}

void reduce(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, std::span<std::byte* const> outs,
            std::int64_t count, std::int64_t streams_above) {
  switch (dtype) {
  case DType::f64:
    return reduce_all<double>(op, sources, outs, count, streams_above);
  case DType::f32:
    return reduce_all<float>(op, sources, outs, count, streams_above);
  case DType::bf16:
    return reduce_all<bfloat16>(op, sources, outs, count, streams_above);
  case DType::f16:
    return reduce_all<float16>(op, sources, outs, count, streams_above);
  case DType::i64:
    return reduce_all<std::int64_t>(op, sources, outs, count, streams_above);
  case DType::i32:
    return reduce_all<std::int32_t>(op, sources, outs, count, streams_above);
  case DType::u8:
    return reduce_all<std::uint8_t>(op, sources, outs, count, streams_above);
  }
}

void copy_bytes(const std::byte* from, std::byte* to, std::int64_t bytes, std::int64_t streams_above) {
  if (bytes <= streams_above) {
    if (bytes > 0)
      std::memcpy(to, from, static_cast<std::size_t>(bytes));
    return;
  }
  stream(to, from, bytes);
  fence();
}

} // namespace ostraka::comm::impl
