// SPDX-License-Identifier: Apache-2.0
// What a parameter group consists of: its layout, its types, the buffers that it has and where. Pure: groups of a
// context are made from it, dry runs add it up. Source: spec/megatron_fsdp.md 3.1, 3.2.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/parameter_spec.hpp>
#include <ostraka/fsdp/recipe.hpp>
#include <ostraka/layout/global_layout.hpp>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::fsdp {

/// The types in which weights stand at rest, are handed out and are updated.
struct WeightTypes {
  DType storage;
  DType compute;
  DType main;

  bool casts_main() const { return main != storage; }     ///< main weights are a buffer of their own
  bool casts_whole() const { return compute != storage; } ///< what is handed out is a buffer of its own
};

/// Of buffers whose weights rest whole on every node, or not: each byte of a node's copy has one writer, so what
/// several ranks would update is cut among all.
OSTRAKA_API RecipePlacements placements_where(bool rests_whole, RecipePlacements placements);

/// Whether ranks of a node may gather into memory that they share: those on one line of the axis that shards the
/// weights. Ranks that gather over several axes one after the other have no memory in common.
OSTRAKA_API bool shares_gathers(const layout::Placements& parameter);

/// Bytes that the gradient slots of one rank may hold together: `config` or `cache_bytes` bound those of a node of
/// `node_size` ranks, the latter where all ranks share one node.
OSTRAKA_API std::int64_t most_slot_bytes(const ContextConfig& config, bool is_one_node, int node_size,
                                         std::int64_t cache_bytes);

/// One group for each storage type and trainability, in the order of their first parameters.
OSTRAKA_API std::vector<std::vector<ParameterSpec>> grouped(const std::vector<ParameterSpec>& specs);

/// What `own` does not set is as `other` says.
OSTRAKA_API Precision precision_of(const Precision& own, const Precision& other);

struct GroupPlan {
  std::shared_ptr<const layout::GlobalLayout> layout; ///< of all its buffers
  WeightTypes types;
  DType gradient_dtype; ///< in which gradients are taken and reduced
  bool is_trainable;
  /// Gradients stay Partial on all axes until the last micro-batch, and add up in the main gradient itself; else they
  /// are written into a slot.
  bool has_persistent_partial;
  /// Every rank keeps all weights, so that nothing is gathered but what others updated.
  bool is_replicated;
  /// The last micro-batch ends with a further reduction, in place.
  bool is_reduced_at_the_end;

  /// Of the slot that it needs; 0: none.
  std::int64_t slot_bytes() const;
};

/// `specs` have equal types and trainability, there is one at least; `module` is for messages. NOT_SUPPORTED for types
/// that differ where gradients add up in the main gradient itself.
OSTRAKA_API GroupPlan plan_group(const std::vector<ParameterSpec>& specs, const Precision& precision,
                                 const RecipePlacements& placements, int segments, const std::string& module);

} // namespace ostraka::fsdp
