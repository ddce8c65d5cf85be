// SPDX-License-Identifier: Apache-2.0
// Who carries what between the nodes of a line. The pieces of all ranks outside a node, one behind the other, are cut
// evenly into one share for each rank of the node. In a gather a rank receives its share for the whole node, in a
// reduction it sums its share over the node and sends the sums to the owners of the pieces. So each element crosses
// once into a node, or once out of it, in as many messages as one share touches pieces. Pure arithmetic.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/comm/node/node_map.hpp>
#include <ostraka/comm/transfer.hpp>
#include <ostraka/layout/segments.hpp>

#include <cstdint>
#include <limits>
#include <vector>

namespace ostraka::comm {

class OSTRAKA_API Shares {
public:
  static constexpr layout::Range everything{0, std::numeric_limits<std::int64_t>::max()};

  /// `window` limits every piece to its elements of these numbers: one round of an operation in rounds. Both
  /// references are kept.
  Shares(const NodeMap& map, const layout::Segments& pieces, layout::Range window = everything);

  /// The part of the piece of `rank` in the window, in elements of the whole.
  layout::Range piece(int rank) const;

  /// What `rank` carries for its node, in the order of the share; `peer` owns the piece, `offset` counts in the whole.
  std::vector<Transfer> share(int rank) const;
  /// Elements of share(rank).
  std::int64_t share_size(int rank) const;

  /// Who carries the piece of `rank` for the other nodes: the parts of a node are in order and cover the piece once;
  /// `offset` counts in the whole.
  std::vector<Transfer> carriers(int rank) const;

private:
  std::int64_t size_of(int node) const;
  layout::Segments shares_of(int node) const;
  void append_overlaps(std::vector<Transfer>& parts, int node, layout::Range mine, std::int64_t first) const;

  const NodeMap& map_;
  const layout::Segments& pieces_;
  layout::Range window_;
  std::int64_t size_ = 0; ///< elements of all pieces in the window
};

/// The part of `bytes` that rank `local` of every node brings there in a broadcast, empty beyond the smallest node:
/// between the ranks of one number, bytes go along a tree.
OSTRAKA_API layout::Range rail(const NodeMap& map, std::int64_t bytes, int local);

/// The tree of a broadcast between nodes.
struct Tree {
  int parent = -1; ///< node; none for the root
  std::vector<int> children;
};
OSTRAKA_API Tree tree(int nodes, int root, int node);

} // namespace ostraka::comm
