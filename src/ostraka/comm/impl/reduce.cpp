// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/inline_vector.hpp>
#include <ostraka/base/with_type.hpp>
#include <ostraka/comm/impl/reduce.hpp>
#include <ostraka/comm/impl/sums.hpp>
#include <ostraka/comm/impl/vectors.hpp>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

namespace ostraka::comm::impl {

namespace {

using layout::ReduceOp;

template <class T>
using Few = InlineVector<T, 16>;

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

// From sources of T to results of R, which is T or its wide type or has it as the wide type. Sums are divided.
template <class T, class R>
class Reduction {
public:
  Reduction(ReduceOp op, std::int64_t divisor, std::span<const std::byte* const> sources,
            std::span<std::byte* const> outs, bool is_large)
      : op_(op), divisor_(divisor), streams_(is_large && !is_any_of(outs, sources)) {
    for (const std::byte* source : sources)
      sources_.push_back(reinterpret_cast<const T*>(source));
    for (std::byte* out : outs)
      outs_.push_back(reinterpret_cast<R*>(out));
    from_.resize(sources_.size());
  }

  void run(std::int64_t count) {
    if (sums_in_vectors() && writes_at_once())
      return sum_at_once(count);
    alignas(64) std::array<R, block> results;
    for (std::int64_t begin = 0; begin < count; begin += block) {
      const std::int64_t size = std::min(block, count - begin);
      if (sums_in_vectors())
        sum_to(results.data(), begin, size, factor());
      else
        reduce_to(results.data(), begin, size);
      for (R* out : outs_)
        write(out + begin, results.data(), size);
    }
    if (streams_)
      fence();
  }

private:
  static constexpr std::int64_t block = block_bytes / static_cast<std::int64_t>(sizeof(T));

  // What was just read is in a cache anyway: streams are three times slower there.
  static bool is_any_of(std::span<std::byte* const> outs, std::span<const std::byte* const> sources) {
    return std::find_first_of(outs.begin(), outs.end(), sources.begin(), sources.end()) != outs.end();
  }
  bool has_vectors() const {
    const bool fits = !std::is_same_v<T, bfloat16> || sources_.size() <= most_in_registers;
    return has_vector_sum<T> && is_sum(op_) && sources_.size() > 1 && fits;
  }
  // Dividing by 2^k is a factor, exactly.
  bool sums_in_vectors() const {
    return std::is_same_v<T, R> && has_vectors() && std::has_single_bit(static_cast<std::uint64_t>(divisor_));
  }
  Wide<T> factor() const { return Wide<T>{1} / static_cast<Wide<T>>(divisor_); }
  static constexpr bool has_sum_around = has_streams && std::is_floating_point_v<T> && std::is_same_v<T, R>;
  bool writes_at_once() const {
    return (!streams_ || has_sum_around) && outs_.size() == 1 && sources_.size() <= most_in_registers;
  }

  void sum_at_once(std::int64_t count) {
    if constexpr (has_sum_around)
      if (streams_) {
        sum_around(outs_[0], std::span<const T* const>(sources_), count, factor());
        return fence();
      }
    sum_to(outs_[0], 0, count, factor());
  }

  template <class Out>
  void sum_to(Out* results, std::int64_t begin, std::int64_t count, Wide<T> factor) {
    if constexpr (has_vector_sum<T> && std::is_same_v<T, Out>) {
      std::transform(sources_.begin(), sources_.end(), from_.begin(), [&](const T* source) { return source + begin; });
      sum(results, std::span<const T* const>(from_), count, factor);
    }
  }

  void reduce_to(R* results, std::int64_t begin, std::int64_t count) {
    alignas(64) std::array<Wide<T>, block> total;
    if (std::is_same_v<T, Wide<T>> && has_vectors())
      sum_to(total.data(), begin, count, Wide<T>{1});
    else
      gather<T>(total.data(), sources_, begin, count, op_);
    if (divisor_ != 1)
      for (std::int64_t i = 0; i < count; ++i)
        total[i] = static_cast<Wide<T>>(total[i] / static_cast<Wide<T>>(divisor_));
    narrow_to<R>(results, total.data(), count);
  }

  void write(R* out, const R* results, std::int64_t count) const {
    const std::int64_t bytes = count * static_cast<std::int64_t>(sizeof(R));
    if (streams_)
      stream(reinterpret_cast<std::byte*>(out), reinterpret_cast<const std::byte*>(results), bytes);
    else
      std::memcpy(static_cast<void*>(out), results, static_cast<std::size_t>(bytes));
  }

  ReduceOp op_;
  std::int64_t divisor_;
  bool streams_;
  Few<const T*> sources_;
  Few<const T*> from_; ///< the sources in a round
  Few<R*> outs_;
};

template <class T, class R>
void reduce_all(ReduceOp op, std::int64_t divisor, std::span<const std::byte* const> sources,
                std::span<std::byte* const> outs, std::int64_t count, std::int64_t streams_above) {
  const bool is_large = count * static_cast<std::int64_t>(sizeof(R)) > streams_above;
  Reduction<T, R>(op, divisor, sources, outs, is_large).run(count);
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
  const std::int64_t divisor = op == ReduceOp::mean ? static_cast<std::int64_t>(sources.size()) : 1;
  with_type(dtype, [&](auto value) {
    using T = decltype(value);
    reduce_all<T, T>(op, divisor, sources, outs, count, streams_above);
  });
}

void reduce_partly(DType dtype, ReduceOp op, std::span<const std::byte* const> sources, std::byte* out,
                   std::int64_t count) {
  with_type(dtype, [&](auto value) {
    using T = decltype(value);
    reduce_all<T, Wide<T>>(op, 1, sources, {&out, 1}, count, cached_bytes());
  });
}

void reduce_partial(DType dtype, ReduceOp op, std::span<const std::byte* const> partial,
                    std::span<std::byte* const> outs, std::int64_t count, int ranks) {
  const std::int64_t divisor = op == ReduceOp::mean ? ranks : 1;
  with_type(dtype, [&](auto value) {
    using T = decltype(value);
    reduce_all<Wide<T>, T>(op, divisor, partial, outs, count, cached_bytes());
  });
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
