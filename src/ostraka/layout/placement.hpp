// SPDX-License-Identifier: Apache-2.0
// How a buffer relates to one axis of a mesh. Lists of placements are ordered outer to inner, one per axis.
// Source: seed 000 and spec/megatron_fsdp.md 1.1.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/base/inline_vector.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace ostraka::layout {

/// Reductions that a Partial placement waits for; numbers are part of the C ABI. `mean` is the sum divided by the
/// number of ranks; floating types only.
enum class ReduceOp : std::int32_t { sum = 0, mean = 1, max = 2, min = 3, prod = 4 };

/// "sum", "mean", ...; null for a number that is no reduction.
OSTRAKA_API const char* name(ReduceOp op);

struct Placement {
  enum class Kind : std::int32_t { replicate = 0, shard = 1, partial = 2 };

  Kind kind = Kind::replicate;
  ReduceOp op = ReduceOp::sum; ///< meaningful for partial only

  bool operator==(const Placement& other) const {
    return kind == other.kind && (kind != Kind::partial || op == other.op);
  }
  bool is_replicate() const { return kind == Kind::replicate; }
  bool is_shard() const { return kind == Kind::shard; }
  bool is_partial() const { return kind == Kind::partial; }
};

/// The whole range, equal on all ranks of the axis.
constexpr Placement replicate() { return {}; }
/// A contiguous part of the range.
constexpr Placement shard() { return {Placement::Kind::shard, ReduceOp::sum}; }
/// The whole range, still to be reduced over the axis.
constexpr Placement partial(ReduceOp op = ReduceOp::sum) { return {Placement::Kind::partial, op}; }

/// A std::vector in all but the allocation, up to four axes.
using Placements = InlineVector<Placement, 4>;

/// "[Replicate, Shard]", "[Partial(sum)]", ...
OSTRAKA_API std::string to_string(std::span<const Placement> placements);

/// Checks that there is one placement per axis and that Shard axes are a suffix, since only then is the data of every
/// rank one contiguous range. Throws INVALID_ARGUMENT.
OSTRAKA_API void validate(std::span<const Placement> placements, int mesh_dims);

} // namespace ostraka::layout
