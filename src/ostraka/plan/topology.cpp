// SPDX-License-Identifier: Apache-2.0
#include <ostraka/plan/impl/topology.hpp>

#include <algorithm>
#include <numeric>

namespace ostraka::plan::impl {

Topology::Topology(const Request& request) {
  for (const Axis& axis : request.mesh)
    sizes_.push_back(axis.size);
  const auto ranks = static_cast<int>(request.ranks());
  const int on_a_node = request.ranks_per_node == 0 ? ranks : request.ranks_per_node;
  for (int rank = 0; rank < ranks; ++rank) {
    node_.push_back(request.nodes.empty() ? rank / on_a_node : request.nodes[static_cast<std::size_t>(rank)]);
    const auto nodes = static_cast<std::size_t>(node_.back()) + 1;
    ranks_of_.resize(std::max(ranks_of_.size(), nodes));
    ranks_of_[nodes - 1].push_back(rank);
  }
  const bool has_peers =
      std::any_of(ranks_of_.begin(), ranks_of_.end(), [](const auto& node) { return node.size() > 1; });
  shares_nodes_ = request.backend == Backend::node && has_peers;
}

bool Topology::nodes_hold_all_parts(const layout::Placements& placements) const {
  const auto part = [&](int rank) { return layout::part_of(placements, {sizes_, coordinates(rank)}); };
  for (const std::vector<int>& node : ranks_of_) {
    std::vector<std::int64_t> parts;
    std::int64_t count = 1;
    for (const int rank : node) {
      const layout::Part own = part(rank);
      count = own.count;
      parts.push_back(own.index);
    }
    if (node.size() > 1 && !shares_memory(node.front()))
      parts.resize(1); // each alone
    if (!parts.empty() && !mesh::are_all_parts(std::move(parts), count))
      return false;
  }
  return true;
}

std::vector<int> Topology::line(int rank, int axis) const {
  int stride = 1;
  for (int inner = dims() - 1; inner > axis; --inner)
    stride *= sizes_[static_cast<std::size_t>(inner)];
  const int size = sizes_[static_cast<std::size_t>(axis)], first = rank - rank / stride % size * stride;
  std::vector<int> ranks;
  for (int k = 0; k < size; ++k)
    ranks.push_back(first + k * stride);
  return ranks;
}

std::vector<int> Topology::peers_on_line(int rank, int axis) const {
  std::vector<int> ranks = line(rank, axis);
  std::erase_if(ranks, [&](int other) { return node(other) != node(rank); });
  return ranks;
}

comm::NodeMap Topology::map(const std::vector<int>& ranks) const {
  std::vector<int> nodes;
  for (const int rank : ranks) // who shares memory with nobody is a node
    nodes.push_back(shares_memory(rank) ? node(rank) : this->ranks() + rank);
  return comm::NodeMap(nodes);
}

std::vector<int> Topology::all() const {
  std::vector<int> ranks(node_.size());
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

} // namespace ostraka::plan::impl
