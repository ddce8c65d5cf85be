// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/plan.hpp>

#include <algorithm>

namespace ostraka::buffer {

namespace {

using layout::Placement;
using Kind = RedistributeStep::Kind;

Kind transition(const Placement& from, const Placement& to, std::span<const Placement> all_from,
                std::span<const Placement> all_to) {
  if (from.is_shard() && to.is_replicate())
    return Kind::allgather;
  if (from.is_replicate() && to.is_shard())
    return Kind::view;
  if (from.is_partial() && to.is_shard())
    return Kind::reduce_scatter;
  if (from.is_partial() && to.is_replicate())
    return Kind::allreduce;
  if (from.is_replicate() && to == layout::partial(layout::ReduceOp::mean))
    return Kind::relabel;
  fail(Status::NOT_SUPPORTED, "redistribute: no way from ", layout::to_string(all_from), " to ",
       layout::to_string(all_to));
}

bool is_reduction(Kind kind) { return kind == Kind::reduce_scatter || kind == Kind::allreduce; }

} // namespace

std::vector<RedistributeStep> plan_redistribute(std::span<const Placement> from, std::span<const Placement> to) {
  layout::validate(to, static_cast<int>(from.size()));
  std::vector<RedistributeStep> steps;
  layout::Placements current(from.begin(), from.end());
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == to[axis])
      continue;
    const Kind kind = transition(from[axis], to[axis], from, to);
    current[axis] = to[axis];
    const bool moves = kind != Kind::view && kind != Kind::relabel;
    if (!moves && !steps.empty() && steps.back().kind == kind)
      steps.back().placements = current; // views of several axes are one view
    else
      steps.push_back({kind, moves ? static_cast<int>(axis) : -1, current});
  }
  const bool is_uniform =
      std::all_of(steps.begin(), steps.end(), [&](const RedistributeStep& step) { return step.kind == steps[0].kind; });
  const bool reduces =
      std::any_of(steps.begin(), steps.end(), [](const RedistributeStep& step) { return is_reduction(step.kind); });
  expect(is_uniform && (!reduces || steps.size() == 1), Status::NOT_SUPPORTED,
         "redistribute: ", layout::to_string(from), " to ", layout::to_string(to),
         " mixes transitions; do one kind at a time, reductions one axis at a time");
  return steps;
}

} // namespace ostraka::buffer
