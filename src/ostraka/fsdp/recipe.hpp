// SPDX-License-Identifier: Apache-2.0
// Which of weights, gradients and optimizer state are sharded. Source: spec/megatron_fsdp.md 3.3.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/layout/placement.hpp>

#include <cstdint>
#include <optional>
#include <string>

namespace ostraka::fsdp {

/// What is sharded: over all axes of the mesh, or over the innermost one only (then the outer axes replicate). Numbers
/// are part of the C ABI.
enum class Recipe : std::int32_t {
  no_shard = 0,
  zero_1 = 1,        ///< main weights and optimizer state
  zero_2 = 2,        ///< and gradients
  zero_3 = 3,        ///< and weights
  hsdp = 4,          ///< everything, innermost axis only
  hfsdp = 5,         ///< as hsdp, main weights and optimizer state over all axes
  zero_1_zero_2 = 6, ///< main weights and optimizer state over all axes, gradients over the innermost
};

/// Placements of the buffers of a parameter group, one per mesh axis.
struct RecipePlacements {
  layout::Placements parameter;
  layout::Placements gradient; ///< of the main gradient while micro-batches add up
  layout::Placements optimizer;

  bool operator==(const RecipePlacements&) const = default;
};

/// The placements of `recipe` on a mesh of `dims` axes; `op` is the reduction that Partial gradients wait for. Throws
/// INVALID_ARGUMENT for a number that is no recipe, or a recipe that needs more axes.
OSTRAKA_API RecipePlacements placements_of(Recipe recipe, int dims, layout::ReduceOp op);

/// Throws INVALID_ARGUMENT naming the rule that placements chosen by hand break on a mesh of `dims` axes:
/// Shard axes are a suffix of each list; weights and optimizer state are not Partial; Partial gradients wait for `op`;
/// an axis that shards weights or gradients shards optimizer state, since what is updated lies inside both.
OSTRAKA_API void validate(const RecipePlacements& placements, int dims, layout::ReduceOp op);

/// The types of a module's parameters beside their storage types; what is not set follows from the storage type.
struct Precision {
  std::optional<DType>
      main_dtype; ///< of main weights, gradients, optimizer state: f64 or f32; none: f64 for f64, else f32
  /// f64, f32 or bf16: in which whole weights are handed out, without a copy where they are stored so; none: f64 for
  /// f64, else f32.
  std::optional<DType> compute_dtype;
  /// f64, f32 or bf16: in which gradients are taken and reduced; bf16 is summed in f32 and rounded once. None: f64 for
  /// f64, else f32.
  std::optional<DType> reduction_dtype;
};

/// Throws TYPE_MISMATCH naming the type that is none of the above; `where` starts the message.
OSTRAKA_API void validate(const Precision& precision, const std::string& where);

/// Its precision is the default of its modules.
struct ContextConfig : Precision {
  Recipe recipe = Recipe::zero_3;
  std::optional<RecipePlacements> placements;          ///< chosen by hand, instead of `recipe`
  layout::ReduceOp reduction = layout::ReduceOp::mean; ///< of gradients over the ranks; micro-batches always add up
  int gradient_slots = 2;                              ///< reductions in flight before a producer waits, >= 1
  /// What the slots of all ranks of a node may hold together, bytes >= 0; there are fewer, but one, where so many are
  /// larger. None: the last-level caches of the machine where all ranks share one node, so that reductions find in the
  /// cache what was just written; else no bound, since messages take their time.
  std::optional<std::int64_t> gradient_slot_bytes;
  bool broadcast = false; ///< finalize copies replicated weights from rank 0 instead of comparing them
  /// Elements of weights that are gathered ahead of use, of modules that do not say otherwise: none: one module; 0:
  /// nothing; else whole modules until so many are reached.
  std::optional<std::int64_t> prefetch;
  /// Gathers and reductions take turns in one queue: slower, but with gradient_slots 1 three modules are in memory at a
  /// time instead of four.
  bool unified_stream = false;
};

/// Throws INVALID_ARGUMENT or TYPE_MISMATCH naming the setting that makes no sense on a mesh of `dims` axes.
OSTRAKA_API void validate(const ContextConfig& config, int dims);

/// Those chosen by hand if there are any, else those of the recipe; valid ones.
OSTRAKA_API RecipePlacements placements_of(const ContextConfig& config, int dims);

} // namespace ostraka::fsdp
