// SPDX-License-Identifier: Apache-2.0
// The reduction of a line over several nodes: in rounds of bounded scratch memory, every rank reduces its share over
// its node and sends the partial results to the owners of the pieces, who reduce those of all nodes in their order.
#pragma once

#include <ostraka/comm/hierarchical/impl/hierarchical_collective.hpp>

#include <vector>

namespace ostraka::comm::impl {

class Reduction {
public:
  /// For `operation`, which outlives it.
  Reduction(LinePtr line, const Description& operation, layout::Segments pieces, DType dtype, layout::ReduceOp op);

  /// inputs[local] is the whole of each rank of the node; the piece of this rank is written to all `outs`.
  void start(std::vector<const std::byte*> inputs, std::vector<std::byte*> outs);
  bool test(); ///< true when complete
  bool will_send_again() const { return begun_ + round_ < pieces_.largest(); }

private:
  Shares shares() const { return {line_->map, pieces_, {begun_, begun_ + round_}}; } ///< of this round
  void start_round();
  void finish_round();
  void reduce_inputs(std::int64_t offset, std::int64_t count, std::byte* out);
  std::byte* partial(int node) { return scratch_.data() + node * own_.size() * width_; }

  LinePtr line_;
  layout::Segments pieces_;
  DType dtype_;
  layout::ReduceOp op_;
  std::int64_t width_; ///< of partial results
  Messages messages_;
  std::int64_t round_;     ///< elements of a piece that a round moves
  std::int64_t begun_ = 0; ///< elements of each piece in earlier rounds
  layout::Range own_;      ///< what this round reduces of this rank's piece
  std::vector<const std::byte*> inputs_;
  std::vector<std::byte*> outs_;
  std::vector<std::byte> scratch_; ///< for every node, its partial results of own_; then those of the share
  std::vector<const std::byte*> sources_;
};

} // namespace ostraka::comm::impl
