// SPDX-License-Identifier: Apache-2.0
// Builders of layouts, one per policy. Pure functions of their arguments: every rank computes the same layout alone.
// All numbers are elements; a layout knows no data type. All builders throw INVALID_ARGUMENT naming the tensor, and for
// segments < 1 or sizes beyond 64 bits. Empty tensors are legal in any order, 0-D tensors are one row of one element.
// Sources: spec/megatron_fsdp.md 1.4 - 1.6, design section 3 "Layouts".
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/layout/atom.hpp>
#include <ostraka/layout/global_layout.hpp>

#include <cstdint>
#include <span>
#include <vector>

namespace ostraka::layout {

/// 1 asks for none.
struct Alignment {
  std::int64_t tensor = 1;  ///< every tensor starts at a multiple of this
  std::int64_t segment = 1; ///< every segment is a multiple of this
};

/// Atoms of a list of tensors: none (elements), one for all, or one per tensor.
using Atoms = std::vector<Atom>;

/// Policy `reference`: cuts fall between dim-0 rows, or blocks of `block_rows` rows, of every tensor; bit-exact with
/// spec 1.4. Also throws for a zero extent after the first dimension and for a dimension 0 that is no multiple of
/// `block_rows`.
OSTRAKA_API GlobalLayout build_reference(std::vector<Shape> shapes, int segments, std::int64_t block_rows = 1);

/// Policy `planned`: equal segments of the least length for which an order and places of the tensors were found such
/// that no cut splits an atom. Exact for up to six tensors as long as the search is small (the reason says which),
/// within a few percent by heuristics otherwise. The tensors keep their order where that costs nothing. The last atom
/// of a tensor may be short.
OSTRAKA_API GlobalLayout build_planned(std::vector<Shape> shapes, int segments, const Alignment& alignment = {},
                                       const Atoms& atoms = {});

/// Policy `flat`: planned with element atoms; pads less than `segment` elements a rank and less than `tensor` a tensor.
OSTRAKA_API GlobalLayout build_flat(std::vector<Shape> shapes, int segments, const Alignment& alignment = {});

/// Policy `ragged`: tensors in their order without any padding; unequal segments, the largest one as small as any cuts
/// between atoms allow. Trailing segments may be empty.
OSTRAKA_API GlobalLayout build_ragged(std::vector<Shape> shapes, int segments, const Atoms& atoms = {});

/// Policy `tensor_atomic`: segment k holds the tensors with owners[i] == k, in their order, without padding. Throws
/// unless there is one owner in [0, segments) per tensor.
OSTRAKA_API GlobalLayout build_tensor_atomic(std::vector<Shape> shapes, int segments, std::span<const int> owners);

/// Owners for tensor_atomic layouts of several groups that balance the cost of an optimizer which works on whole
/// matrices in `steps` iterations: numel x (min(rows, columns) x steps + 1). A tensor that a rank holds whole in the
/// given layouts stays there; the others go to the cheapest rank that holds a part, most expensive first. Result:
/// owners[group][tensor]. Throws when the groups have different numbers of segments.
OSTRAKA_API std::vector<std::vector<int>> plan_owners(std::span<const GlobalLayout> groups, std::int64_t steps);

/// Policy `automatic`: `planned` when its padding is at most 3 % of the payload or when `equal_segments` are required;
/// else `ragged` (which ignores the alignment). The layout's policy is the chosen one, its reason says why.
OSTRAKA_API GlobalLayout build_automatic(std::vector<Shape> shapes, int segments, const Alignment& alignment = {},
                                         const Atoms& atoms = {}, bool equal_segments = false);

/// The builder of `policy`, for callers that choose at run time. `reference` takes one row or block atom
/// for all tensors, none meaning rows; `reference` and `ragged` refuse an alignment, `flat` refuses atoms;
/// `tensor_atomic` needs owners and is not built here.
OSTRAKA_API GlobalLayout build(Policy policy, std::vector<Shape> shapes, int segments, const Alignment& alignment = {},
                               const Atoms& atoms = {});

/// The least length of equal segments that any layout could have, from what every single tensor needs: the printed
/// bound of benchmarks.
OSTRAKA_API std::int64_t equal_segment_bound(std::span<const Shape> shapes, int segments, const Alignment& alignment,
                                             const Atoms& atoms);

/// Throws INVALID_ARGUMENT naming tensor, atom, offset and segment when a cut of `layout` splits an atom.
OSTRAKA_API void validate_atoms(const GlobalLayout& layout, const Atoms& atoms);

} // namespace ostraka::layout
