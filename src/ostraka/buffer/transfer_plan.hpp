// SPDX-License-Identifier: Apache-2.0
// Which elements go where when the same tensors change from one layout and placement to another. Pure: every rank
// computes its own part alone, and the parts of two ranks fit.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/comm/transfer.hpp>
#include <ostraka/layout/global_layout.hpp>

#include <span>
#include <vector>

namespace ostraka::buffer {

/// One side of a redistribution: a layout, placements without Partial, and the axis sizes of a mesh on which ranks are
/// numbered with the last axis fastest.
struct Side {
  const layout::GlobalLayout& layout;
  std::span<const layout::Placement> placements;
  std::span<const int> sizes;
};

/// Offsets count from the begin of the rank's local range on that side. Between two ranks there is one transfer per
/// tensor of which they share elements: the k-th sent is the k-th received. What a rank keeps is a transfer to itself.
struct TransferPlan {
  std::vector<comm::Transfer> sends;    ///< ascending peers
  std::vector<comm::Transfer> receives; ///< ascending peers
};

/// What `rank` sends and receives so that every rank holds its part under `to`. An element that several ranks hold is
/// taken from the receiver itself if it is one of them, else from one holder chosen by a formula that spreads receivers
/// over holders, near ones over near ones. Padding is not sent. O(tensors + intersections of this rank x replicas that
/// it serves). Throws SHAPE_MISMATCH naming the first tensor whose shape differs, INVALID_ARGUMENT for meshes of
/// different size, a rank outside them, placements and sizes that GlobalLayout::local_range refuses, NOT_SUPPORTED
/// naming the axis for Partial.
OSTRAKA_API TransferPlan plan_transfers(const Side& from, const Side& to, int rank);

} // namespace ostraka::buffer
