// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/fsdp/recipe.hpp>

namespace ostraka::fsdp {

namespace {

layout::Placements innermost_shards(int dims, const layout::Placement& outer) {
  layout::Placements placements(dims, outer);
  placements.back() = layout::shard();
  return placements;
}

void require_two_axes(const char* recipe, int dims) {
  expect(dims >= 2, Status::INVALID_ARGUMENT, "recipe ", recipe,
         ": expected a mesh of at least two axes (the innermost one shards, the others replicate), found ", dims);
}

void check_axis(const RecipePlacements& placements, int axis, layout::ReduceOp op) {
  const layout::Placement& parameter = placements.parameter[axis];
  const layout::Placement& gradient = placements.gradient[axis];
  const layout::Placement& optimizer = placements.optimizer[axis];
  expect(!parameter.is_partial(), Status::INVALID_ARGUMENT, "placements: axis ", axis,
         ": expected Replicate or Shard for weights, found Partial");
  expect(!optimizer.is_partial(), Status::INVALID_ARGUMENT, "placements: axis ", axis,
         ": expected Replicate or Shard for optimizer state, found Partial");
  expect(!gradient.is_partial() || gradient.op == op, Status::INVALID_ARGUMENT, "placements: axis ", axis,
         ": expected gradients Partial(", layout::name(op), "), the reduction of the context, found Partial(",
         layout::name(gradient.op), ")");
  expect(!parameter.is_shard() || optimizer.is_shard(), Status::INVALID_ARGUMENT, "placements: axis ", axis,
         " shards weights, so it must shard optimizer state, too (what is updated lies inside the weights at rest); "
         "found Replicate");
  expect(!gradient.is_shard() || optimizer.is_shard(), Status::INVALID_ARGUMENT, "placements: axis ", axis,
         " shards gradients, so it must shard optimizer state, too (what is updated lies inside the gradients); found "
         "Replicate");
}

} // namespace

RecipePlacements placements_of(Recipe recipe, int dims, layout::ReduceOp op) {
  const layout::Placements replicated(dims, layout::replicate());
  const layout::Placements sharded(dims, layout::shard());
  const layout::Placements partial(dims, layout::partial(op));
  switch (recipe) {
  case Recipe::no_shard:
    return {replicated, partial, replicated};
  case Recipe::zero_1:
    return {replicated, partial, sharded};
  case Recipe::zero_2:
    return {replicated, sharded, sharded};
  case Recipe::zero_3:
    return {sharded, sharded, sharded};
  case Recipe::hsdp: {
    require_two_axes("hsdp", dims);
    const layout::Placements inner = innermost_shards(dims, layout::replicate());
    return {inner, innermost_shards(dims, layout::partial(op)), inner};
  }
  case Recipe::hfsdp:
    require_two_axes("hfsdp", dims);
    return {innermost_shards(dims, layout::replicate()), innermost_shards(dims, layout::partial(op)), sharded};
  case Recipe::zero_1_zero_2:
    require_two_axes("zero_1_zero_2", dims);
    return {replicated, innermost_shards(dims, layout::partial(op)), sharded};
  }
  fail(Status::INVALID_ARGUMENT,
       "recipe: expected 0 (no_shard), 1 (zero_1), 2 (zero_2), 3 (zero_3), 4 (hsdp), 5 (hfsdp) or 6 (zero_1_zero_2), "
       "found ",
       static_cast<std::int32_t>(recipe));
}

void validate(const RecipePlacements& placements, int dims, layout::ReduceOp op) {
  layout::validate(placements.parameter, dims);
  layout::validate(placements.gradient, dims);
  layout::validate(placements.optimizer, dims);
  for (int axis = 0; axis < dims; ++axis)
    check_axis(placements, axis, op);
}

void validate(const Precision& precision, const std::string& where) {
  const auto check = [&](std::optional<DType> found, bool may_be_bf16, const char* what) {
    const bool fits = !found || *found == DType::f64 || *found == DType::f32 || (may_be_bf16 && *found == DType::bf16);
    expect(fits, Status::TYPE_MISMATCH, where, ": expected a ", what, " type of f64",
           may_be_bf16 ? ", f32 or bf16" : " or f32", ", found ", found ? name(*found) : "none");
  };
  check(precision.main_dtype, false, "main");
  check(precision.compute_dtype, true, "compute");
  check(precision.reduction_dtype, true, "reduction");
}

void validate(const ContextConfig& config, int dims) {
  expect(config.gradient_slots >= 1, Status::INVALID_ARGUMENT, "context: expected gradient_slots >= 1, found ",
         config.gradient_slots);
  expect(!config.gradient_slot_bytes || *config.gradient_slot_bytes >= 0, Status::INVALID_ARGUMENT,
         "context: expected gradient_slot_bytes >= 0, or none, found ", config.gradient_slot_bytes.value_or(0));
  expect(!config.prefetch || *config.prefetch >= 0, Status::INVALID_ARGUMENT,
         "context: expected prefetch >= 0 elements, or none, found ", config.prefetch.value_or(0));
  expect(config.reduction == layout::ReduceOp::sum || config.reduction == layout::ReduceOp::mean,
         Status::INVALID_ARGUMENT, "context: expected the reduction sum (0) or mean (1), found ",
         static_cast<std::int32_t>(config.reduction));
  placements_of(config, dims);
  validate(static_cast<const Precision&>(config), "context");
}

RecipePlacements placements_of(const ContextConfig& config, int dims) {
  if (!config.placements)
    return placements_of(config.recipe, dims, config.reduction);
  validate(*config.placements, dims, config.reduction);
  return *config.placements;
}

} // namespace ostraka::fsdp
