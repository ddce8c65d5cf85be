// SPDX-License-Identifier: Apache-2.0
#include <ostraka/buffer/plan.hpp>
#include <ostraka/plan/impl/group.hpp>

namespace ostraka::plan::impl {

using memory::Kind;

Group::Group(const fsdp::GroupPlan& plan, const Shape& shape, Memory& memory, Recorder& recorder, Place place,
             double divisor)
    : plan_(plan), shape_(shape), memory_(memory), recorder_(recorder), place_(place), divides_(divisor != 1),
      gradients_(plan) {
  const auto& [parameter, gradient, optimizer] = shape_.placements;
  const layout::Placements everywhere(parameter.size(), layout::replicate());
  const layout::Placements partial(parameter.size(), layout::partial(shape_.reduction));
  const fsdp::WeightTypes& types = plan_.types;
  buffer(WeightPart::main) = {optimizer, types.main, types.casts_main() ? &main_ : &resting_};
  buffer(WeightPart::model) = {optimizer, types.storage, &resting_};
  buffer(WeightPart::resting) = {parameter, types.storage, &resting_};
  buffer(WeightPart::gathered) = {everywhere, types.storage,
                                  shape_.rests_whole || plan_.is_replicated ? &resting_ : &gathered_};
  buffer(WeightPart::whole) = {everywhere, types.compute,
                               types.casts_whole() ? &whole_ : buffer(WeightPart::gathered).piece};
  shape_.rests_whole ? make_shared_weights() : make_gathered_weights();
  if (types.casts_main())
    main_ = Piece(memory_.arena, bytes(buffer(WeightPart::main)), Kind::parameters, memory_.main);
  if (types.casts_whole())
    whole_ = Piece(memory_.arena, bytes(buffer(WeightPart::whole)), Kind::transient, memory_.gathered, false);
  if (!plan_.is_trainable)
    return;
  buffer(GradientPart::accumulated) = {gradient, types.main, &accumulated_};
  buffer(GradientPart::main) = {optimizer, types.main, &accumulated_};
  buffer(GradientPart::addend) = {gradient, plan_.gradient_dtype, &addend_};
  buffer(GradientPart::partial) = {partial, plan_.gradient_dtype,
                                   plan_.has_persistent_partial ? &accumulated_ : &slot_stand_in_};
  accumulated_ = Piece(memory_.arena, bytes(buffer(GradientPart::accumulated)), Kind::gradients, memory_.gradients);
}

void Group::make_gathered_weights() {
  resting_ = Piece(memory_.arena, bytes(buffer(WeightPart::resting)), Kind::parameters, memory_.resting);
  weights_ = std::make_unique<fsdp::GatheredRules>(plan_.types, plan_.is_replicated);
  if (buffer(WeightPart::gathered).piece != &gathered_)
    return;
  const auto& shared = memory_.shared;
  gathered_ = Piece(shared ? shared->arena : memory_.arena, bytes(buffer(WeightPart::gathered)), Kind::transient,
                    shared ? memory_.gathered_shared : memory_.gathered, false);
}

void Group::make_shared_weights() {
  auto& shared = memory_.shared;
  const bool spans_nodes = !shared || shared->size() != shape_.topology.ranks();
  weights_ = std::make_unique<fsdp::SharedRules>(plan_.types, spans_nodes);
  const std::int64_t all = bytes(buffer(WeightPart::gathered));
  if (!shared) {
    resting_ = Piece(memory_.arena, all, Kind::parameters, memory_.resting);
    return;
  }
  resting_ = Piece(shared->arena, all, Kind::parameters, memory_.regions);
  shared->region_bytes.push_back(all);
  if (all == 0)
    return;
  const std::int64_t begin = Arena::offset_of(resting_.storage()), width = size_of(plan_.types.storage);
  for (int k = 0; k < shared->size(); ++k) {
    layout::Range own = shared->part_of(all, k);
    if (!spans_nodes) {
      own = range_of(shape_.placements.optimizer, shared->ranks[static_cast<std::size_t>(k)]);
      own = {own.begin * width, own.end * width};
    }
    shared->shares[static_cast<std::size_t>(k)].take(begin + own.begin, own.size());
  }
}

layout::Range Group::range(const layout::Placements& placements) const {
  return plan_.layout->local_range(placements, {shape_.topology.sizes(), shape_.coordinates});
}

layout::Range Group::range_of(const layout::Placements& placements, int rank) const {
  return plan_.layout->local_range(placements, {shape_.topology.sizes(), shape_.topology.coordinates(rank)});
}

// --- what the rules of weights ask for

void Group::take(WeightPart part) {
  Piece& piece = *buffer(part).piece;
  piece.take();
  const auto& shared = memory_.shared;
  if (part != WeightPart::gathered || !shared || piece.storage().bytes() == 0)
    return;
  const std::int64_t offset = Arena::offset_of(piece.storage());
  for (comm::node::PageShare& share : memory_.shared->shares)
    share.take_evenly(Arena::space_of(offset), offset, piece.storage().bytes());
}

void Group::give_back(WeightPart part) { buffer(part).piece->give_back(); }

void Group::cast(WeightPart from, WeightPart to, Queue queue) {
  recorder_.touch(queue, place_, "cast", bytes(buffer(from)) + bytes(buffer(to)));
}

// As buffer::redistribute.
void Group::carry_out(const Buffer& from, const Buffer& to, Queue queue) {
  const auto steps = buffer::plan_redistribute(from.placements, to.placements);
  const layout::Range result = range(to.placements);
  layout::Range before = range(from.placements);
  const bool is_in_place = from.piece == to.piece && before.size() > 0 && result.size() > 0;
  bool is_intermediate = false; // what the step reads
  for (const buffer::RedistributeStep& step : steps) {
    using Step = buffer::RedistributeStep::Kind;
    const layout::Range after = range(step.placements);
    if (&step != &steps.back()) {
      const auto where = buffer::intermediate_of(step, result, after, is_in_place || is_intermediate);
      if (where == buffer::Intermediate::in_scratch)
        take_scratch(after, from.dtype);
      is_intermediate = is_intermediate || where != buffer::Intermediate::view;
    }
    if (step.kind == Step::allgather)
      recorder_.communicate(queue, place_, Collective::allgather, step.axis, after.size(), from.dtype);
    else if (step.kind == Step::reduce_scatter)
      recorder_.communicate(queue, place_, Collective::reduce_scatter, step.axis, before.size(), from.dtype);
    else if (step.kind == Step::allreduce)
      recorder_.communicate(queue, place_, Collective::allreduce, step.axis, after.size(), from.dtype);
    before = after;
  }
}

void Group::take_scratch(const layout::Range& range, DType dtype) {
  Scratch& scratch = memory_.scratch;
  const std::int64_t bytes = range.size() * size_of(dtype);
  if (scratch.bytes >= bytes)
    return;
  if (scratch.piece.is_there())
    scratch.piece.give_back();
  scratch.piece = Piece(memory_.arena, bytes, Kind::transient, memory_.scratch_meter);
  scratch.bytes = bytes;
}

// --- gradients

bool Group::begin_reduction(bool is_last_microbatch) {
  return gradients_.begin(*this, is_last_microbatch, shape_.is_fused && !weights_->is_unsharded(), divides_);
}

void Group::zero_grad() {
  if (gradients_.is_updated()) {
    weights_->refresh(*this, true);
    gradients_.publish();
  }
  gradients_.zero();
}

// As GradientSlots::acquire.
void Group::bind_slot() {
  slot_ = memory_.ring.next();
  if (slot_ == static_cast<int>(memory_.slots.size()))
    memory_.slots.push_back(
        {Piece(memory_.arena, memory_.ring.bytes(), Kind::transient, memory_.slot_meter, false), 0});
  Slot& slot = memory_.slots[static_cast<std::size_t>(slot_)];
  recorder_.wait(Queue::compute, slot.reduced_at);
  slot.piece.take();
  memory_.ring.bind(slot_);
}

void Group::release_slot() {
  memory_.slots[static_cast<std::size_t>(slot_)].reduced_at = recorder_.now(Queue::reduce);
  memory_.ring.release(slot_);
}

void Group::take_addend() {
  if (!addend_.is_there())
    addend_ = Piece(memory_.arena, bytes(buffer(GradientPart::addend)), Kind::gradients, memory_.addends);
}

void Group::redistribute(GradientPart from, GradientPart to, bool updates) {
  carry_out(buffer(from), buffer(to), Queue::reduce);
  if (updates)
    recorder_.touch(Queue::reduce, place_, "update", update_bytes());
}

void Group::divide(GradientPart part) { recorder_.touch(Queue::reduce, place_, "divide", 2 * bytes(buffer(part))); }

void Group::convert_addend() {
  recorder_.touch(Queue::reduce, place_, "cast",
                  bytes(buffer(GradientPart::addend)) + bytes(buffer(GradientPart::accumulated)));
}

void Group::clear_accumulated() {
  recorder_.touch(Queue::reduce, place_, "clear", bytes(buffer(GradientPart::accumulated)));
}

void Group::add_addend() {
  recorder_.touch(Queue::reduce, place_, "add",
                  bytes(buffer(GradientPart::addend)) + 2 * bytes(buffer(GradientPart::accumulated)));
}

// --- the optimizer

void Group::make_state(int buffers) {
  for (int k = 0; k < buffers; ++k)
    state_.emplace_back(memory_.arena, bytes(buffer(GradientPart::main)), Kind::optimizer_state, memory_.moments);
}

// Gradients are read, all else is read and written.
std::int64_t Group::update_bytes() const {
  const std::int64_t main = range(shape_.placements.optimizer).size() * size_of(plan_.types.main);
  const std::int64_t model = range(shape_.placements.optimizer).size() * size_of(plan_.types.storage);
  return main * (3 + 2 * static_cast<std::int64_t>(state_.size())) + (plan_.types.casts_main() ? model : 0);
}

void Group::update() {
  const bool is_done = gradients_.is_updated();
  if (!is_done)
    recorder_.touch(Queue::compute, place_, "update", update_bytes());
  weights_->refresh(*this, plan_.types.casts_main()); // the kernel has written the model weights, too
  gradients_.publish();
}

} // namespace ostraka::plan::impl
