// SPDX-License-Identifier: Apache-2.0
// What a redistribution does, step by step. Pure: no memory, no communication. Source: spec/megatron_fsdp.md 2.4.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/base/inline_vector.hpp>
#include <ostraka/layout/global_layout.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace ostraka::buffer {

struct RedistributeStep {
  enum class Kind : std::int32_t {
    view,           ///< Replicate -> Shard on any number of axes: a contained range, nothing moves
    relabel,        ///< Replicate -> Partial(mean, max or min): equal values reduce to themselves, nothing moves
    allgather,      ///< Shard -> Replicate on `axis`
    reduce_scatter, ///< Partial -> Shard on `axis`
    allreduce,      ///< Partial -> Replicate on `axis`
  };

  Kind kind = Kind::view;
  int axis = -1;                 ///< of the mesh; -1 for view and relabel
  layout::Placements placements; ///< after the step
};

using RedistributeSteps = InlineVector<RedistributeStep, 2>;

/// The steps from one list of placements to another of the same length; none when they are equal. Any mixture of Shard
/// -> Replicate, Replicate -> Shard, Partial -> Shard, Partial -> Replicate and Replicate -> Partial(mean, max, min),
/// one per axis, in an order in which Shard axes stay a suffix and data is smallest when it is reduced:
///   1. axes that become Shard, inner to outer (reduce_scatter, or views of neighbours as one step);
///   2. allreduce of the other Partial axes, outer to inner;
///   3. axes that become Replicate from Shard, outer to inner, so that every intermediate is a contiguous part of the
///      result;
///   4. relabels, as one step.
/// Throws NOT_SUPPORTED naming the axis and the transition for Shard -> Partial, Partial -> another Partial, Replicate
/// -> Partial(sum or prod), and naming two axes when several are reduced by operations that do not commute (all sums
/// and means, or all equal, do); INVALID_ARGUMENT for placements that layout::validate refuses.
OSTRAKA_API RedistributeSteps plan_redistribute(std::span<const layout::Placement> from,
                                                std::span<const layout::Placement> to);

/// Where the result of a step stands that is not the last one.
enum class Intermediate : std::int32_t {
  view,       ///< nothing moves: a part of what was there
  in_result,  ///< inside the result of the redistribution
  in_current, ///< inside what the step reads, which may be overwritten
  in_scratch, ///< in memory of its own, needed once at most: before the first reduction
};
/// `result` and `after`: what this rank holds of the whole at the end and after the step. `may_overwrite`: everything
/// happens in place, or the step reads an intermediate.
OSTRAKA_API Intermediate intermediate_of(const RedistributeStep& step, const layout::Range& result,
                                         const layout::Range& after, bool may_overwrite);

/// What a step moves on one rank: the absolute ranges that the rank holds before and after it.
struct StepRanges {
  layout::Range before;
  layout::Range after;
};

/// The ranges of each of `steps` that start from `from` on the rank at `position`.
OSTRAKA_API std::vector<StepRanges> step_ranges(std::span<const RedistributeStep> steps,
                                                std::span<const layout::Placement> from,
                                                const layout::GlobalLayout& layout,
                                                const layout::MeshPosition& position);

/// The pieces that the ranks of `axis` hold under `placements` (which shard the axis, outer axes not) of the range that
/// they hold together, in order of their coordinates; where segments are equal, one run by a formula. Throws
/// INVALID_ARGUMENT unless `axis` is the outermost Shard axis.
OSTRAKA_API layout::Segments axis_pieces(const layout::GlobalLayout& layout,
                                         std::span<const layout::Placement> placements,
                                         const layout::MeshPosition& position, int axis);

} // namespace ostraka::buffer
