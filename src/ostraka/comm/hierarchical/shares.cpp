// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/hierarchical/shares.hpp>

#include <algorithm>
#include <cstddef>

namespace ostraka::comm {

using layout::Range;
using layout::Segments;

Shares::Shares(const NodeMap& map, const Segments& pieces, Range window) : map_(map), pieces_(pieces), window_(window) {
  const std::span<const Segments::Run> runs = pieces.runs();
  for (std::size_t k = 0; k < runs.size(); ++k) {
    const std::int64_t end = k + 1 < runs.size() ? runs[k + 1].first : pieces.count();
    size_ += (end - runs[k].first) * piece(static_cast<int>(runs[k].first)).size();
  }
}

Range Shares::piece(int rank) const {
  const Range piece = pieces_.range(rank);
  const std::int64_t begin = std::min(window_.begin, piece.size()), end = std::min(window_.end, piece.size());
  return {piece.begin + begin, piece.begin + end};
}

std::int64_t Shares::size_of(int node) const {
  const std::span<const int> ranks = map_.ranks_of(node);
  if (pieces_.are_equal())
    return static_cast<std::int64_t>(ranks.size()) * piece(ranks.front()).size();
  std::int64_t size = 0;
  for (const int rank : ranks)
    size += piece(rank).size();
  return size;
}

Segments Shares::shares_of(int node) const {
  return Segments::even(static_cast<int>(map_.ranks_of(node).size()), size_ - size_of(node));
}

std::int64_t Shares::share_size(int rank) const { return shares_of(map_.node(rank)).range(map_.local(rank)).size(); }

// The pieces outside a node begin with those of the next node, so that not all nodes turn to one at the same time.
std::vector<Transfer> Shares::share(int rank) const {
  const int own = map_.node(rank);
  const Range mine = shares_of(own).range(map_.local(rank));
  std::vector<Transfer> parts;
  std::int64_t first = 0;
  for (int step = 1; step < map_.nodes() && first < mine.end; ++step) {
    const int node = (own + step) % map_.nodes();
    const std::int64_t size = size_of(node);
    if (first + size > mine.begin)
      append_overlaps(parts, node, mine, first);
    first += size;
  }
  return parts;
}

// The parts of a node's pieces that stand in `mine`, where the first of them begins at `first`.
void Shares::append_overlaps(std::vector<Transfer>& parts, int node, Range mine, std::int64_t first) const {
  for (const int owner : map_.ranks_of(node)) {
    const Range piece = this->piece(owner);
    const Range common = layout::intersect(mine, {first, first + piece.size()});
    if (common.size() > 0)
      parts.push_back({owner, piece.begin + common.begin - first, common.size()});
    first += piece.size();
  }
}

std::vector<Transfer> Shares::carriers(int rank) const {
  const int own = map_.node(rank);
  const Range piece = this->piece(rank);
  std::vector<Transfer> parts;
  if (piece.size() == 0)
    return parts;
  std::int64_t first = 0; // of the piece among those outside a node, that before this one to begin with
  for (const int before : map_.ranks_of(own).first(static_cast<std::size_t>(map_.local(rank))))
    first += this->piece(before).size();
  for (int step = 1; step < map_.nodes(); ++step) {
    const int node = (own + map_.nodes() - step) % map_.nodes();
    const Segments shares = shares_of(node);
    for (std::int64_t done = 0; done < piece.size();) {
      const int local = shares.find(first + done);
      const std::int64_t count = std::min(shares.range(local).end - first, piece.size()) - done;
      parts.push_back({map_.ranks_of(node)[static_cast<std::size_t>(local)], piece.begin + done, count});
      done += count;
    }
    first += size_of(node);
  }
  return parts;
}

Range rail(const NodeMap& map, std::int64_t bytes, int local) {
  if (local >= map.smallest())
    return {bytes, bytes};
  return Segments::even(map.smallest(), bytes).range(local);
}

// Binomial: relative to the root, a node's parent is its number without the lowest bit.
Tree tree(int nodes, int root, int node) {
  const int number = (node - root + nodes) % nodes;
  const auto absolute = [&](int relative) { return (relative + root) % nodes; };
  Tree tree;
  int bit = 1;
  for (; (number & bit) == 0 && bit < nodes; bit *= 2) {
  }
  if (number != 0)
    tree.parent = absolute(number & ~bit);
  for (bit /= 2; bit > 0; bit /= 2) // the largest subtree first
    if (number + bit < nodes)
      tree.children.push_back(absolute(number + bit));
  return tree;
}

} // namespace ostraka::comm
