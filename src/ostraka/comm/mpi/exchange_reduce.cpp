// SPDX-License-Identifier: Apache-2.0
// Reductions of our own, for what MPI does not know, does wrongly or cannot count. Rounds of bounded size: every rank
// receives its part from each peer, reduces them in rank order and rounds once.
#include <ostraka/comm/impl/reduce.hpp>
#include <ostraka/comm/mpi/impl/mpi_collective.hpp>

#include <algorithm>

namespace ostraka::comm::impl {

namespace {

class ExchangeReduce final : public MpiCollective {
public:
  ExchangeReduce(GroupPtr group, Operand in, Operand out, layout::Segments pieces, DType dtype, layout::ReduceOp op,
                 bool gather)
      : MpiCollective(std::move(group)), in_(std::move(in)), out_(std::move(out)), pieces_(std::move(pieces)),
        dtype_(dtype), op_(op), gather_(gather), messages_(group_, description, dtype, Tag::reduction) {
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
    if (!messages_.are_complete())
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
    const std::int64_t count = part(own_).size();
    std::byte* place = scratch_.data();
    for (int peer = 0; peer < group_->size && count > 0; ++peer) {
      if (peer == group_->rank)
        continue;
      messages_.receive(peer, place, count);
      place += count * width;
    }
    for (int step = 1; step < group_->size; ++step) { // each rank begins at another peer
      const int peer = (group_->rank + step) % group_->size;
      const layout::Range sent = part(pieces_.range(peer));
      if (sent.size() > 0)
        messages_.send(peer, in_.data() + sent.begin * width, sent.size());
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
    std::byte* out = out_.data() + first * width;
    reduce(dtype_, op_, sources_, {&out, 1}, reduced.size());
  }

  Operand in_;
  Operand out_;
  layout::Segments pieces_;
  DType dtype_;
  layout::ReduceOp op_;
  bool gather_;
  Messages messages_;
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
