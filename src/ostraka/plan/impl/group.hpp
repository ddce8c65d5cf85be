// SPDX-License-Identifier: Apache-2.0
// A parameter group without memory: it takes the place of buffers in arenas, and notes what would be communicated.
#pragma once

#include <ostraka/fsdp/gradient_rules.hpp>
#include <ostraka/fsdp/weight_rules.hpp>
#include <ostraka/plan/impl/memory.hpp>
#include <ostraka/plan/impl/recorder.hpp>

#include <memory>

namespace ostraka::plan::impl {

/// What all groups of a run have in common.
struct Shape {
  const Topology& topology;
  std::vector<int> coordinates;
  fsdp::RecipePlacements placements;
  layout::ReduceOp reduction;
  bool rests_whole;
  bool is_fused;
};

class Group final : private fsdp::WeightWork, private fsdp::GradientWork {
public:
  /// All references are kept.
  Group(const fsdp::GroupPlan& plan, const Shape& shape, Memory& memory, Recorder& recorder, Place place,
        double divisor);

  const fsdp::GroupPlan& plan() const { return plan_; }
  bool is_updated() const { return gradients_.is_updated(); }

  /// As that of a context, this walks with its weights.
  Group& weights() { return *this; }
  void reserve() { weights_->reserve(*this); }
  void give_back() { weights_->give_back(*this); }
  void unshard() { weights_->unshard(*this); }
  void complete_unshard() { weights_->complete_unshard(*this); }
  void wait_unsharded() { weights_->wait_unsharded(*this); }
  void reshard() { weights_->reshard(*this); }

  void bind() { gradients_.bind(*this); }
  /// Whether a reduction is due, which the four others carry out.
  bool begin_reduction(bool is_last_microbatch);
  void reduce_contribution() { gradients_.reduce_contribution(*this); }
  void add_contribution() { gradients_.add_contribution(*this); }
  void reduce_at_the_end() { gradients_.reduce_at_the_end(*this); }
  void end_reduction() { gradients_.end(*this); }
  void zero_grad();

  /// State of the optimizer: so many buffers.
  void make_state(int buffers);
  /// The optimizer's step, in its parts.
  void begin_update() { weights_->begin_update(*this); }
  void update();

private:
  using WeightPart = fsdp::WeightPart;
  using GradientPart = fsdp::GradientPart;

  /// A buffer: what it covers, and in which memory it stands.
  struct Buffer {
    layout::Placements placements;
    DType dtype = DType::f64;
    Piece* piece = nullptr;
  };

  void make_shared_weights();
  void make_gathered_weights();
  Buffer& buffer(WeightPart part) { return weight_buffers_[static_cast<std::size_t>(part)]; }
  Buffer& buffer(GradientPart part) { return gradient_buffers_[static_cast<std::size_t>(part)]; }
  layout::Range range(const layout::Placements& placements) const;
  layout::Range range_of(const layout::Placements& placements, int rank) const;
  std::int64_t bytes(const Buffer& buffer) const { return range(buffer.placements).size() * size_of(buffer.dtype); }
  void carry_out(const Buffer& from, const Buffer& to, Queue queue);
  void take_scratch(const layout::Range& range, DType dtype);
  std::int64_t update_bytes() const;

  // weights
  void take(WeightPart part) override;
  void give_back(WeightPart part) override;
  void redistribute(WeightPart from, WeightPart to) override { carry_out(buffer(from), buffer(to), Queue::gather); }
  void cast(WeightPart from, WeightPart to, Queue queue) override;
  void gather_after_compute() override { recorder_.wait(Queue::gather, recorder_.now(Queue::compute)); }
  void note_arrival() override { arrived_at_ = recorder_.now(Queue::gather); }
  void wait_arrived() override { recorder_.wait(Queue::compute, arrived_at_); }

  // gradients
  void bind_slot() override;
  void release_slot() override;
  void clear_unwritten() override {}
  void reduce_after_compute() override { recorder_.wait(Queue::reduce, recorder_.now(Queue::compute)); }
  void take_addend() override;
  void redistribute(GradientPart from, GradientPart to, bool updates) override;
  void divide(GradientPart part) override;
  void convert_addend() override;
  void clear_accumulated() override;
  void add_addend() override;

  const fsdp::GroupPlan& plan_;
  const Shape& shape_;
  Memory& memory_;
  Recorder& recorder_;
  Place place_;
  bool divides_;
  std::unique_ptr<fsdp::WeightRules> weights_;
  fsdp::GradientRules gradients_;
  Piece resting_, main_, gathered_, whole_, accumulated_, addend_, slot_stand_in_;
  std::vector<Piece> state_;
  std::array<Buffer, 5> weight_buffers_;
  std::array<Buffer, 4> gradient_buffers_;
  int slot_ = -1;
  double arrived_at_ = 0;
};

} // namespace ostraka::plan::impl
