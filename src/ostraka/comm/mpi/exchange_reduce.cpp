// SPDX-License-Identifier: Apache-2.0
// Reductions of our own, for what MPI does not know, does wrongly or cannot count. Rounds of bounded size: every rank
// receives its part from each peer, reduces them in rank order and rounds once.
#include <ostraka/base/float16.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>

#include <algorithm>
#include <array>
#include <type_traits>

namespace ostraka::comm::impl {

namespace {

constexpr std::int64_t scratch_bytes = std::int64_t{1} << 25; // per round; more rounds beyond that

// The type in which values of T are added up.
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
void combine(W* total, const W* values, std::int64_t count, layout::ReduceOp op) {
  switch (op) {
  case layout::ReduceOp::sum:
  case layout::ReduceOp::mean:
    for (std::int64_t i = 0; i < count; ++i)
      total[i] = static_cast<W>(static_cast<Modular<W>>(total[i]) + static_cast<Modular<W>>(values[i]));
    return;
  case layout::ReduceOp::max:
    for (std::int64_t i = 0; i < count; ++i)
      total[i] = larger(total[i], values[i]);
    return;
  case layout::ReduceOp::min:
    for (std::int64_t i = 0; i < count; ++i)
      total[i] = smaller(total[i], values[i]);
    return;
  case layout::ReduceOp::prod:
    for (std::int64_t i = 0; i < count; ++i)
      total[i] = static_cast<W>(static_cast<Modular<W>>(total[i]) * static_cast<Modular<W>>(values[i]));
    return;
  }
}

// out[i] = the reduction of sources[0][i], sources[1][i], ... in this order, by blocks that stay in the first cache.
template <class T>
void reduce(const std::vector<const std::byte*>& sources, std::byte* out, std::int64_t count, layout::ReduceOp op) {
  constexpr std::int64_t block = 1024;
  std::array<Wide<T>, block> total, values;
  auto* results = reinterpret_cast<T*>(out);
  for (std::int64_t begin = 0; begin < count; begin += block) {
    const std::int64_t size = std::min(block, count - begin);
    for (std::size_t k = 0; k < sources.size(); ++k) {
      const T* source = reinterpret_cast<const T*>(sources[k]) + begin;
      Wide<T>* target = k == 0 ? total.data() : values.data();
      for (std::int64_t i = 0; i < size; ++i)
        target[i] = static_cast<Wide<T>>(source[i]);
      if (k > 0)
        combine(total.data(), values.data(), size, op);
    }
    if (op == layout::ReduceOp::mean)
      for (std::int64_t i = 0; i < size; ++i)
        total[i] = static_cast<Wide<T>>(total[i] / static_cast<Wide<T>>(sources.size()));
    for (std::int64_t i = 0; i < size; ++i)
      results[begin + i] = static_cast<T>(total[i]);
  }
}

using Reduce = void (*)(const std::vector<const std::byte*>&, std::byte*, std::int64_t, layout::ReduceOp);

Reduce reduce_of(DType dtype) {
  switch (dtype) {
  case DType::f64:
    return reduce<double>;
  case DType::f32:
    return reduce<float>;
  case DType::bf16:
    return reduce<bfloat16>;
  case DType::f16:
    return reduce<float16>;
  case DType::i64:
    return reduce<std::int64_t>;
  case DType::i32:
    return reduce<std::int32_t>;
  case DType::u8:
    return reduce<std::uint8_t>;
  }
  return nullptr;
}

class ExchangeReduce final : public MessageCollective {
public:
  ExchangeReduce(GroupPtr group, Operand in, Operand out, layout::Segments pieces, DType dtype, layout::ReduceOp op,
                 bool gather)
      : MessageCollective(std::move(group), dtype, 2), in_(std::move(in)), out_(std::move(out)),
        pieces_(std::move(pieces)), op_(op), gather_(gather) {
    const std::int64_t peers = std::max(group_->size - 1, 1);
    round_ = std::clamp<std::int64_t>(scratch_bytes / (peers * size_of(dtype)), 1, group_->settings.count_limit);
    own_ = pieces_.range(group_->rank);
  }

  void start() override {
    scratch_ = group_->scratch.take((group_->size - 1) * std::min(round_, own_.size()) * size_of(dtype_));
    start_round();
  }

  bool test() override {
    if (gathering_ != nullptr)
      return gathering_->test();
    if (!are_complete())
      return false;
    reduce_round();
    begun_ += round_;
    if (has_rounds()) {
      start_round();
      return false;
    }
    group_->scratch.give_back(std::move(scratch_));
    if (!gather_)
      return true;
    gathering_ =
        make_allgather(group_, {out_.storage, out_.byte_offset + own_.begin * size_of(dtype_)}, out_, pieces_, dtype_);
    gathering_->description = description;
    gathering_->start();
    return false;
  }

  bool will_start_again() const override {
    if (gathering_ != nullptr)
      return gathering_->will_start_again();
    return gather_ || pieces_.largest() > begun_ + round_;
  }

private:
  bool has_rounds() const { return begun_ < pieces_.largest(); }

  // The part of a piece that this round moves.
  layout::Range part(const layout::Range& piece) const {
    const std::int64_t begin = std::min(piece.begin + begun_, piece.end);
    return {begin, std::min(begin + round_, piece.end)};
  }

  void start_round() {
    const std::int64_t width = size_of(dtype_);
    const auto count = static_cast<int>(part(own_).size());
    std::byte* place = scratch_.data();
    for (int peer = 0; peer < group_->size && count > 0; ++peer) {
      if (peer == group_->rank)
        continue;
      receive(peer, count, place, count, mpi_type(dtype_));
      place += count * width;
    }
    for (int step = 1; step < group_->size; ++step) { // each rank begins at another peer
      const int peer = (group_->rank + step) % group_->size;
      const layout::Range sent = part(pieces_.range(peer));
      if (sent.size() > 0)
        send(peer, in_.data() + sent.begin * width, static_cast<int>(sent.size()), mpi_type(dtype_));
    }
  }

  void reduce_round() {
    const std::int64_t width = size_of(dtype_);
    const layout::Range reduced = part(own_);
    if (reduced.size() == 0)
      return;
    const std::byte* place = scratch_.data();
    sources_.clear();
    for (int peer = 0; peer < group_->size; ++peer) {
      if (peer == group_->rank) {
        sources_.push_back(in_.data() + reduced.begin * width);
        continue;
      }
      sources_.push_back(place);
      place += reduced.size() * width;
    }
    const std::int64_t first = gather_ ? reduced.begin : reduced.begin - own_.begin;
    reduce_of(dtype_)(sources_, out_.data() + first * width, reduced.size(), op_);
  }

  Operand in_;
  Operand out_;
  layout::Segments pieces_;
  layout::ReduceOp op_;
  bool gather_;
  layout::Range own_;
  std::int64_t round_ = 1; ///< elements of a piece that a round moves
  std::int64_t begun_ = 0; ///< elements of each piece in earlier rounds
  std::vector<std::byte> scratch_;
  std::vector<const std::byte*> sources_;
  std::unique_ptr<Collective> gathering_;
};

} // namespace

std::unique_ptr<Collective> make_exchange_reduce(GroupPtr group, Operand in, Operand out, layout::Segments pieces,
                                                 DType dtype, layout::ReduceOp op, bool gather) {
  return std::make_unique<ExchangeReduce>(std::move(group), std::move(in), std::move(out), std::move(pieces), dtype, op,
                                          gather);
}

} // namespace ostraka::comm::impl
