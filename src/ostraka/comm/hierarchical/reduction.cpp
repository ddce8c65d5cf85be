// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/hierarchical/impl/reduction.hpp>
#include <ostraka/comm/impl/reduce.hpp>

#include <algorithm>

namespace ostraka::comm::impl {

Reduction::Reduction(LinePtr line, const Description& operation, layout::Segments pieces, DType dtype,
                     layout::ReduceOp op)
    : line_(std::move(line)), pieces_(std::move(pieces)), dtype_(dtype), op_(op), width_(size_of(partial_type(dtype))),
      messages_(line_->all, operation, partial_type(dtype), Tag::partial) {
  // Equal on all ranks: where the shares are largest, an element of each piece needs so many in scratch.
  const NodeMap& map = line_->map;
  const int share = (map.ranks() - 1) / map.smallest();
  round_ =
      std::clamp<std::int64_t>(scratch_bytes / ((map.nodes() + share) * width_), 1, line_->all->settings.count_limit);
}

void Reduction::start(std::vector<const std::byte*> inputs, std::vector<std::byte*> outs) {
  inputs_ = std::move(inputs);
  outs_ = std::move(outs);
  const Shares first = shares(); // no later round is larger
  const int rank = line_->rank();
  scratch_ =
      line_->all->scratch.take((line_->map.nodes() * first.piece(rank).size() + first.share_size(rank)) * width_);
  start_round();
}

void Reduction::start_round() {
  const Shares shares = this->shares();
  own_ = shares.piece(line_->rank());
  for (const Transfer& part : shares.carriers(line_->rank()))
    messages_.receive(part.peer, partial(line_->map.node(part.peer)) + (part.offset - own_.begin) * width_, part.count);
  std::byte* place = partial(line_->map.nodes());
  for (const Transfer& part : shares.share(line_->rank())) {
    reduce_inputs(part.offset, part.count, place);
    messages_.send(part.peer, place, part.count);
    place += part.count * width_;
  }
  reduce_inputs(own_.begin, own_.size(), partial(line_->own_node()));
}

void Reduction::reduce_inputs(std::int64_t offset, std::int64_t count, std::byte* out) {
  if (count == 0)
    return;
  sources_.clear();
  for (const std::byte* input : inputs_)
    sources_.push_back(input + offset * size_of(dtype_));
  reduce_partly(dtype_, op_, sources_, out, count);
}

void Reduction::finish_round() {
  if (own_.size() == 0)
    return;
  sources_.clear();
  for (int node = 0; node < line_->map.nodes(); ++node)
    sources_.push_back(partial(node));
  std::vector<std::byte*> outs;
  for (std::byte* out : outs_)
    outs.push_back(out + begun_ * size_of(dtype_));
  reduce_partial(dtype_, op_, sources_, outs, own_.size(), line_->map.ranks());
}

bool Reduction::test() {
  if (!messages_.are_complete())
    return false;
  finish_round();
  const bool is_last = !will_send_again();
  begun_ += round_;
  if (!is_last) {
    start_round();
    return false;
  }
  line_->all->scratch.give_back(std::move(scratch_));
  return true;
}

} // namespace ostraka::comm::impl
