// SPDX-License-Identifier: Apache-2.0
// Bounds for equal segments and arrangements of tensors under a given segment length.
#pragma once

#include <ostraka/layout/impl/item.hpp>

#include <cstdint>
#include <optional>
#include <vector>

namespace ostraka::layout::impl {

/// Where each item starts.
using Arrangement = std::vector<std::int64_t>;

/// The least multiple of `multiple`, >= `at_least`, that every item by itself allows: an atom must fit into a segment,
/// and an item that cannot avoid to cover a whole segment forces the segment to be a multiple of its atom.
std::int64_t next_segment(const std::vector<Item>& items, std::int64_t at_least, std::int64_t multiple);

/// The same with room for all items: a lower bound for equal segments.
std::int64_t least_segment(const std::vector<Item>& items, int segments, std::int64_t multiple);

/// For up to this many items, arrange() tries all orders: nothing means that there is none.
constexpr std::size_t max_exact_items = 10;

/// Places of all items inside `segments` segments of length `segment`: in the given order if it fits, else by several
/// heuristics; nothing when none of them finds any.
std::optional<Arrangement> arrange(const std::vector<Item>& items, int segments, std::int64_t segment,
                                   std::int64_t tensor_alignment);

} // namespace ostraka::layout::impl
