// SPDX-License-Identifier: Apache-2.0
// Which ranks of a line share a node. Pure arithmetic.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstddef>
#include <span>
#include <vector>

namespace ostraka::comm {

class OSTRAKA_API NodeMap {
public:
  /// node_of[rank] is a number that only the ranks of one node have. Nodes are counted by their first ranks.
  explicit NodeMap(const std::vector<int>& node_of);

  int ranks() const { return static_cast<int>(node_.size()); }
  int nodes() const { return static_cast<int>(first_.size()) - 1; }
  int node(int rank) const { return node_[static_cast<std::size_t>(rank)]; }
  /// The ranks of a node, in order.
  std::span<const int> ranks_of(int node) const {
    const auto at = static_cast<std::size_t>(node);
    return std::span(sorted_).subspan(first_[at], first_[at + 1] - first_[at]);
  }
  /// The number of a rank among those of its node.
  int local(int rank) const { return local_[static_cast<std::size_t>(rank)]; }
  /// Ranks of the smallest node.
  int smallest() const { return smallest_; }

private:
  std::vector<int> node_;          ///< [rank]
  std::vector<int> local_;         ///< [rank]
  std::vector<int> sorted_;        ///< ranks by node
  std::vector<std::size_t> first_; ///< [node] in sorted_, and its end
  int smallest_ = 0;
};

} // namespace ostraka::comm
