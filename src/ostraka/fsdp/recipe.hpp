// SPDX-License-Identifier: Apache-2.0
// Which of weights, gradients and optimizer state are sharded. Source: spec/megatron_fsdp.md 3.3.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/layout/placement.hpp>

#include <cstdint>
#include <optional>

namespace ostraka::fsdp {

/// Numbers are part of the C ABI.
enum class Recipe : std::int32_t { no_shard = 0, zero_3 = 3 };

/// Placements of the buffers of a parameter group, one per mesh axis.
struct RecipePlacements {
  layout::Placements parameter;
  layout::Placements gradient; ///< of the main gradient while micro-batches add up
  layout::Placements optimizer;
};

/// The placements of `recipe` on a mesh of `dims` axes; `op` is the reduction that Partial gradients wait for. Throws
/// INVALID_ARGUMENT for a number that is no recipe.
OSTRAKA_API RecipePlacements placements_of(Recipe recipe, int dims, layout::ReduceOp op);

struct ContextConfig {
  Recipe recipe = Recipe::zero_3;
  layout::ReduceOp reduction = layout::ReduceOp::mean; ///< of gradients over the ranks; micro-batches always add up
  int gradient_slots = 2;                              ///< reductions in flight before a producer waits, >= 1
  bool broadcast = false;          ///< finalize copies replicated weights from rank 0 instead of comparing them
  std::optional<DType> main_dtype; ///< of main weights, gradients, optimizer state; none: f64 for f64, else f32
  /// f64, f32 or bf16: in which whole weights are handed out, without a copy where they are stored so; none: f64 for
  /// f64, else f32. Gradients are taken in f64 for f64, else in f32.
  std::optional<DType> compute_dtype;
  /// Elements of weights that are gathered ahead of use, of modules that do not say otherwise: none: one module; 0:
  /// nothing; else whole modules until so many are reached.
  std::optional<std::int64_t> prefetch;
  /// Gathers and reductions take turns in one queue: slower, but with gradient_slots 1 three modules are in memory at a
  /// time instead of four.
  bool unified_stream = false;
};

} // namespace ostraka::fsdp
