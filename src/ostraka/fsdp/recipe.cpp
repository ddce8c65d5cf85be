// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/fsdp/recipe.hpp>

namespace ostraka::fsdp {

RecipePlacements placements_of(Recipe recipe, int dims, layout::ReduceOp op) {
  const layout::Placements replicated(dims, layout::replicate());
  const layout::Placements sharded(dims, layout::shard());
  switch (recipe) {
  case Recipe::no_shard:
    return {replicated, layout::Placements(dims, layout::partial(op)), replicated};
  case Recipe::zero_3:
    return {sharded, sharded, sharded};
  }
  fail(Status::INVALID_ARGUMENT, "recipe: expected 0 (no_shard) or 3 (zero_3), found ",
       static_cast<std::int32_t>(recipe));
}

} // namespace ostraka::fsdp
