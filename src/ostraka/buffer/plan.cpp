// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/plan.hpp>

#include <optional>

namespace ostraka::buffer {

namespace {

using layout::Placement;
using layout::Placements;
using layout::ReduceOp;
using Kind = RedistributeStep::Kind;

/// Equal values reduce to themselves under it, however many there are.
bool is_idempotent(ReduceOp op) { return op == ReduceOp::mean || op == ReduceOp::max || op == ReduceOp::min; }

/// Whether the order of two axes that reduce by `a` and `b` does not matter.
bool commute(ReduceOp a, ReduceOp b) {
  const auto is_linear = [](ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::mean; };
  return a == b || (is_linear(a) && is_linear(b));
}

/// What one axis needs; null where there is no way.
std::optional<Kind> transition(const Placement& from, const Placement& to) {
  if (from.is_shard() && to.is_replicate())
    return Kind::allgather;
  if (from.is_replicate() && to.is_shard())
    return Kind::view;
  if (from.is_partial() && to.is_shard())
    return Kind::reduce_scatter;
  if (from.is_partial() && to.is_replicate())
    return Kind::allreduce;
  if (from.is_replicate() && to.is_partial() && is_idempotent(to.op))
    return Kind::relabel;
  return std::nullopt;
}

class Planner {
public:
  Planner(std::span<const Placement> from, std::span<const Placement> to)
      : from_(from), to_(to), current_(from.begin(), from.end()) {
    const int axes = narrow(static_cast<std::int64_t>(from.size()), "redistribute: mesh axes");
    layout::validate(from, axes);
    layout::validate(to, axes);
    if (const auto axis = only_difference()) {
      steps_.push_back(step_of(*axis, checked_transition(*axis).value(), to));
      return;
    }
    for (std::size_t axis = 0; axis < from.size(); ++axis)
      kinds_.push_back(checked_transition(axis));
    check_reductions();
  }

  RedistributeSteps steps() && {
    if (kinds_.empty())
      return std::move(steps_);
    // Inner to outer keeps the Shard axes a suffix, and an outer reduction finds the data cut by the inner axes.
    for (std::size_t axis = to_.size(); axis-- > 0;)
      if (to_[axis].is_shard())
        apply(axis);
    for (const Kind kind : {Kind::allreduce, Kind::allgather, Kind::relabel})
      for (std::size_t axis = 0; axis < to_.size(); ++axis)
        if (kinds_[axis] == kind)
          apply(axis);
    return std::move(steps_);
  }

private:
  template <class... Reason>
  [[noreturn]] void refuse(const Reason&... reason) const {
    fail(Status::NOT_SUPPORTED, "redistribute: no way from ", layout::to_string(from_), " to ", layout::to_string(to_),
         ": ", reason...);
  }

  // Most redistributions: there is nothing to order.
  std::optional<std::size_t> only_difference() const {
    const auto differs = [this](std::size_t axis) { return !(from_[axis] == to_[axis]); };
    std::optional<std::size_t> found;
    for (std::size_t axis = 0; axis < from_.size(); ++axis)
      if (differs(axis)) {
        if (found)
          return std::nullopt;
        found = axis;
      }
    return found;
  }

  static bool moves(Kind kind) { return kind != Kind::view && kind != Kind::relabel; }

  static RedistributeStep step_of(std::size_t axis, Kind kind, std::span<const Placement> placements) {
    return {kind, moves(kind) ? static_cast<int>(axis) : -1, Placements(placements.begin(), placements.end())};
  }

  std::optional<Kind> checked_transition(std::size_t axis) const {
    if (from_[axis] == to_[axis])
      return std::nullopt;
    const auto kind = transition(from_[axis], to_[axis]);
    if (!kind)
      refuse("axis ", axis, " would go from ", layout::to_string(from_.subspan(axis, 1)), " to ",
             layout::to_string(to_.subspan(axis, 1)));
    return kind;
  }

  bool is_reduced(std::size_t axis) const {
    return kinds_[axis] == Kind::reduce_scatter || kinds_[axis] == Kind::allreduce;
  }

  void check_reductions() const {
    std::optional<std::size_t> first;
    for (std::size_t axis = 0; axis < from_.size(); ++axis) {
      if (!is_reduced(axis))
        continue;
      if (!first)
        first = axis;
      if (!commute(from_[*first].op, from_[axis].op))
        refuse("axes ", *first, " and ", axis, " reduce by ", layout::name(from_[*first].op), " and ",
               layout::name(from_[axis].op), ", whose order matters; redistribute one, then the other");
    }
  }

  void apply(std::size_t axis) {
    if (!kinds_[axis])
      return;
    const Kind kind = *kinds_[axis];
    current_[axis] = to_[axis];
    if (!moves(kind) && !steps_.empty() && steps_.back().kind == kind)
      steps_.back().placements = current_; // neighbours are one step
    else
      steps_.push_back(step_of(axis, kind, current_));
  }

  std::span<const Placement> from_, to_;
  Placements current_;
  InlineVector<std::optional<Kind>, 4> kinds_; ///< null where nothing changes
  RedistributeSteps steps_;
};

} // namespace

RedistributeSteps plan_redistribute(std::span<const Placement> from, std::span<const Placement> to) {
  return Planner(from, to).steps();
}

Intermediate intermediate_of(const RedistributeStep& step, const layout::Range& result, const layout::Range& after,
                             bool may_overwrite) {
  if (step.kind == Kind::view || step.kind == Kind::relabel)
    return Intermediate::view;
  if (result.contains(after))
    return Intermediate::in_result;
  return may_overwrite ? Intermediate::in_current : Intermediate::in_scratch;
}

std::vector<StepRanges> step_ranges(std::span<const RedistributeStep> steps, std::span<const Placement> from,
                                    const layout::GlobalLayout& layout, const layout::MeshPosition& position) {
  std::vector<StepRanges> ranges;
  layout::Range before = layout.local_range(from, position);
  for (const RedistributeStep& step : steps) {
    const layout::Range after = layout.local_range(step.placements, position);
    ranges.push_back({before, after});
    before = after;
  }
  return ranges;
}

layout::Segments axis_pieces(const layout::GlobalLayout& layout, std::span<const Placement> placements,
                             const layout::MeshPosition& position, int axis) {
  const layout::Range own = layout.local_range(placements, position); // checks both
  const bool is_axis = axis >= 0 && static_cast<std::size_t>(axis) < placements.size();
  const auto outermost = static_cast<std::size_t>(axis);
  if (!is_axis || !placements[outermost].is_shard() || (axis > 0 && placements[outermost - 1].is_shard()))
    fail(Status::INVALID_ARGUMENT, "axis_pieces: expected the outermost Shard axis of ", layout::to_string(placements),
         ", found axis ", axis);
  const int ranks = position.sizes[outermost];
  if (layout.has_equal_segments())
    return layout::Segments::equal(ranks, own.size());
  std::vector<int> coordinates(position.coordinates.begin(), position.coordinates.end());
  const auto piece = [&](int coordinate) {
    coordinates[outermost] = coordinate;
    return layout.local_range(placements, {position.sizes, coordinates}).size();
  };
  layout::Segments pieces;
  for (int rank = 0; rank < ranks; ++rank)
    pieces.append(1, piece(rank));
  return pieces;
}

} // namespace ostraka::buffer
