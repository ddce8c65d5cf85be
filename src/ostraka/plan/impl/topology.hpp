// SPDX-License-Identifier: Apache-2.0
// Which ranks of a request are where, and which share memory, as a mesh finds it out.
#pragma once

#include <ostraka/comm/node/node_map.hpp>
#include <ostraka/layout/global_layout.hpp>
#include <ostraka/mesh/sharing.hpp>
#include <ostraka/plan/request.hpp>

#include <vector>

namespace ostraka::plan::impl {

class Topology {
public:
  /// `request` is valid.
  explicit Topology(const Request& request);

  int ranks() const { return static_cast<int>(node_.size()); }
  std::span<const int> sizes() const { return sizes_; }
  int dims() const { return static_cast<int>(sizes_.size()); }
  std::vector<int> coordinates(int rank) const { return layout::coordinates_of(rank, sizes_); }

  int node(int rank) const { return node_[static_cast<std::size_t>(rank)]; }
  const std::vector<int>& ranks_of(int node) const { return ranks_of_[static_cast<std::size_t>(node)]; }
  int node_size(int rank) const { return static_cast<int>(ranks_of(node(rank)).size()); }
  /// Whether ranks of a node share memory at all; some have peers.
  bool shares_nodes() const { return shares_nodes_; }
  bool shares_memory(int rank) const { return shares_nodes_ && node_size(rank) > 1; }
  bool nodes_hold_all_parts(const layout::Placements& placements) const;

  /// The ranks on the line of `axis` through `rank`, in order.
  std::vector<int> line(int rank, int axis) const;
  /// Those of them on its node.
  std::vector<int> peers_on_line(int rank, int axis) const;
  /// Which of them share memory; `ranks` are in order.
  comm::NodeMap map(const std::vector<int>& ranks) const;
  std::vector<int> all() const;

private:
  std::vector<int> sizes_;
  std::vector<int> node_; ///< [rank]
  std::vector<std::vector<int>> ranks_of_;
  bool shares_nodes_ = false;
};

} // namespace ostraka::plan::impl
