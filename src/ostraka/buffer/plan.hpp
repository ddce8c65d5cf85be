// SPDX-License-Identifier: Apache-2.0
// What a redistribution does, step by step. Pure: no memory, no communication. Source: spec/megatron_fsdp.md 2.4.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/layout/placement.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace ostraka::buffer {

struct RedistributeStep {
  enum class Kind : std::int32_t {
    view,           ///< Replicate -> Shard on any number of axes: a contained range, nothing moves
    relabel,        ///< Replicate -> Partial(mean): the average of equal values is the value, nothing moves
    allgather,      ///< Shard -> Replicate on `axis`
    reduce_scatter, ///< Partial -> Shard on `axis`
    allreduce,      ///< Partial -> Replicate on `axis`
  };

  Kind kind;
  int axis;                      ///< of the mesh; -1 for view and relabel
  layout::Placements placements; ///< after the step
};

/// The steps from one list of placements to another of the same length; none when they are equal. Gathers run outer to
/// inner, so that every intermediate is one contiguous part of the result. Throws NOT_SUPPORTED naming the transition
/// for everything except: several axes Shard -> Replicate, several axes Replicate -> Shard, one axis from Partial, one
/// or more axes Replicate -> Partial(mean).
OSTRAKA_API std::vector<RedistributeStep> plan_redistribute(std::span<const layout::Placement> from,
                                                            std::span<const layout::Placement> to);

} // namespace ostraka::buffer
