// SPDX-License-Identifier: Apache-2.0
// The plan of a line over several nodes: all ranks simulated, against what is true of every element.
#include "support/rounds.hpp"
#include <ostraka/comm/hierarchical/shares.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace ostraka::comm::test {
namespace {

using layout::Range;
using layout::Segments;
using ostraka::test::rounds;

struct Case {
  std::vector<int> node_of;
  Segments pieces;
  Range window;
};

Case random_case(std::mt19937& random) {
  Case one;
  const int ranks = 1 + static_cast<int>(random() % 12), nodes = 1 + static_cast<int>(random() % 6);
  for (int rank = 0; rank < ranks; ++rank)
    one.node_of.push_back(random() % 3 == 0 ? 100 : static_cast<int>(random() % static_cast<unsigned>(nodes)) * 7);
  const bool are_equal = random() % 3 == 0;
  const std::int64_t length = random() % 30;
  for (int rank = 0; rank < ranks; ++rank)
    one.pieces.append(1, are_equal ? length : random() % 4 == 0 ? 0 : static_cast<std::int64_t>(random() % 40));
  one.window = Shares::everything;
  if (random() % 2 == 0) {
    one.window.begin = random() % 20;
    one.window.end = one.window.begin + 1 + static_cast<std::int64_t>(random() % 20);
  }
  return one;
}

std::string text(const Case& one) {
  std::string text = "window " + std::to_string(one.window.begin) + " " + std::to_string(one.window.end);
  for (std::size_t rank = 0; rank < one.node_of.size(); ++rank)
    text += ", " + std::to_string(one.pieces.range(static_cast<std::int64_t>(rank)).size()) + " on node " +
            std::to_string(one.node_of[rank]);
  return text;
}

bool is_in_window(const Case& one, int owner, std::int64_t element) {
  const std::int64_t index = element - one.pieces.begin(owner);
  return index >= one.window.begin && index < one.window.end;
}

class Line {
public:
  explicit Line(const Case& one)
      : one_(one), map_(one.node_of), ranks_(map_.ranks()), shares_(map_, one_.pieces, one_.window) {}

  bool share_a_node(int a, int b) const {
    return one_.node_of[static_cast<std::size_t>(a)] == one_.node_of[static_cast<std::size_t>(b)];
  }

  // Every element in the window of a piece is carried once for each other node, and nothing else is.
  void check_coverage() const {
    std::map<std::tuple<int, std::int64_t>, int> carried; // times by node and element
    for (int rank = 0; rank < ranks_; ++rank)
      for (const Transfer& part : shares_.share(rank)) {
        ASSERT_GT(part.count, 0);
        ASSERT_FALSE(share_a_node(rank, part.peer)) << "nothing of the own node crosses";
        for (std::int64_t i = part.offset; i < part.offset + part.count; ++i) {
          ASSERT_TRUE(one_.pieces.range(part.peer).contains({i, i + 1}));
          ASSERT_TRUE(is_in_window(one_, part.peer, i));
          ++carried[{one_.node_of[static_cast<std::size_t>(rank)], i}];
        }
      }
    for (const auto& [key, times] : carried)
      ASSERT_EQ(times, 1);
    std::size_t expected = 0;
    const std::set<int> nodes(one_.node_of.begin(), one_.node_of.end());
    for (int owner = 0; owner < ranks_; ++owner)
      for (std::int64_t i = one_.pieces.range(owner).begin; i < one_.pieces.range(owner).end; ++i)
        expected += is_in_window(one_, owner, i) ? nodes.size() - 1 : 0;
    ASSERT_EQ(carried.size(), expected);
  }

  // The ranks of a node carry equal amounts, up to one element.
  void check_balance() const {
    std::map<int, std::pair<std::int64_t, std::int64_t>> extremes;
    for (int rank = 0; rank < ranks_; ++rank) {
      std::int64_t size = 0;
      for (const Transfer& part : shares_.share(rank))
        size += part.count;
      ASSERT_EQ(size, shares_.share_size(rank));
      auto& [least, most] =
          extremes.try_emplace(one_.node_of[static_cast<std::size_t>(rank)], size, size).first->second;
      least = std::min(least, size);
      most = std::max(most, size);
    }
    for (const auto& [node, extreme] : extremes)
      ASSERT_LE(extreme.second - extreme.first, 1);
  }

  // What a rank carries, the owner knows: both sides list the same messages, one for each pair of ranks.
  void check_both_sides() const {
    std::set<std::tuple<int, int, std::int64_t, std::int64_t>> by_carrier, by_owner;
    std::set<std::pair<int, int>> pairs;
    std::size_t messages = 0;
    for (int rank = 0; rank < ranks_; ++rank) {
      for (const auto& [owner, offset, count] : shares_.share(rank)) {
        by_carrier.insert({rank, owner, offset, count});
        pairs.insert({rank, owner});
        ++messages;
      }
      for (const auto& [carrier, offset, count] : shares_.carriers(rank))
        by_owner.insert({carrier, rank, offset, count});
    }
    ASSERT_EQ(by_carrier, by_owner);
    ASSERT_EQ(pairs.size(), messages);
  }

  // A gather into memory that a node shares: owners write their own pieces, carriers their shares; each element once.
  void check_shared_gather() const {
    std::map<int, std::vector<int>> written;
    for (const int node : one_.node_of)
      written[node].assign(static_cast<std::size_t>(one_.pieces.size()), 0);
    const auto write = [&](int rank, Range range) {
      for (std::int64_t i = range.begin; i < range.end; ++i)
        ++written[one_.node_of[static_cast<std::size_t>(rank)]][static_cast<std::size_t>(i)];
    };
    for (int rank = 0; rank < ranks_; ++rank) {
      write(rank, shares_.piece(rank));
      for (const Transfer& part : shares_.share(rank))
        write(rank, {part.offset, part.offset + part.count});
    }
    for (int owner = 0; owner < ranks_; ++owner)
      for (std::int64_t i = one_.pieces.range(owner).begin; i < one_.pieces.range(owner).end; ++i)
        for (const auto& [node, times] : written)
          ASSERT_EQ(times[static_cast<std::size_t>(i)], is_in_window(one_, owner, i) ? 1 : 0) << "node " << node;
  }

private:
  const Case& one_;
  NodeMap map_;
  int ranks_;
  Shares shares_;
};

TEST(Shares, RandomLines) {
  for (const unsigned seed : {1u, std::random_device{}()}) {
    std::mt19937 random(seed);
    for (int round = 0; round < rounds(2000) && !testing::Test::HasFatalFailure(); ++round) {
      const Case one = random_case(random);
      SCOPED_TRACE("seed " + std::to_string(seed) + ": " + text(one));
      const Line line(one);
      line.check_coverage();
      line.check_balance();
      line.check_both_sides();
      line.check_shared_gather();
    }
  }
}

// By hand: three ranks of four elements on nodes {0, 1} and {2}.
TEST(Shares, TwoAndOne) {
  const NodeMap map({5, 5, 3});
  const Segments pieces = Segments::equal(3, 4);
  const Shares shares(map, pieces);
  EXPECT_EQ(shares.share(0), (std::vector<Transfer>{{2, 8, 2}}));
  EXPECT_EQ(shares.share(1), (std::vector<Transfer>{{2, 10, 2}}));
  EXPECT_EQ(shares.share(2), (std::vector<Transfer>{{0, 0, 4}, {1, 4, 4}}));
  EXPECT_EQ(shares.carriers(0), (std::vector<Transfer>{{2, 0, 4}}));
  EXPECT_EQ(shares.carriers(2), (std::vector<Transfer>{{0, 8, 2}, {1, 10, 2}}));
}

// On equal nodes with equal pieces no piece is cut: a rank exchanges one message with one rank of each other node for
// every rank that its node does not have.
TEST(Shares, EqualNodesCutNoPieces) {
  for (const int nodes : {2, 3, 5})
    for (const int size : {1, 2, 4}) {
      std::vector<int> node_of;
      for (int rank = 0; rank < nodes * size; ++rank)
        node_of.push_back(rank / size);
      const NodeMap map(node_of);
      const Segments pieces = Segments::equal(nodes * size, 10);
      const Shares shares(map, pieces);
      for (int rank = 0; rank < map.ranks(); ++rank) {
        EXPECT_EQ(shares.share(rank).size(), static_cast<std::size_t>(nodes - 1));
        EXPECT_EQ(shares.carriers(rank).size(), static_cast<std::size_t>(nodes - 1));
      }
    }
}

// Neither takes time for every rank: 2^20 of them, 64 on a node.
TEST(Shares, ManyRanks) {
  std::vector<int> node_of;
  for (int rank = 0; rank < 1 << 20; ++rank)
    node_of.push_back(rank / 64);
  const NodeMap map(node_of);
  const Segments pieces = Segments::equal(1 << 20, std::int64_t{1} << 20);
  const Shares shares(map, pieces);
  for (const int rank : {0, 12345, (1 << 20) - 1}) {
    EXPECT_EQ(shares.share(rank).size(), (1u << 14) - 1);
    EXPECT_EQ(shares.carriers(rank).size(), (1u << 14) - 1);
  }
}

TEST(NodeMap, NumbersNodesByTheirFirstRank) {
  const NodeMap map({9, -4, 9, 0, -4, 9});
  EXPECT_EQ(map.ranks(), 6);
  EXPECT_EQ(map.nodes(), 3);
  EXPECT_EQ(map.smallest(), 1);
  const std::vector<std::vector<int>> expected{{0, 2, 5}, {1, 4}, {3}};
  for (int node = 0; node < 3; ++node) {
    const auto ranks = map.ranks_of(node);
    EXPECT_EQ(std::vector<int>(ranks.begin(), ranks.end()), expected[static_cast<std::size_t>(node)]);
    for (std::size_t local = 0; local < ranks.size(); ++local) {
      EXPECT_EQ(map.node(ranks[local]), node);
      EXPECT_EQ(map.local(ranks[local]), static_cast<int>(local));
    }
  }
}

TEST(Broadcast, RailsCoverTheBytesOnce) {
  const NodeMap map({0, 0, 0, 1, 1, 2, 2, 2});
  for (const std::int64_t bytes : {0, 1, 2, 7, 100}) {
    std::int64_t end = 0;
    for (int local = 0; local < 3; ++local) {
      const Range part = rail(map, bytes, local);
      EXPECT_EQ(part.begin, end);
      EXPECT_LE(part.size(), local < 2 ? bytes / 2 + 1 : 0); // the smallest node has two ranks
      end = part.end;
    }
    EXPECT_EQ(end, bytes);
  }
}

// Every node but the root has one parent, which knows it, and is reached in as many steps as there are bits.
TEST(Broadcast, Trees) {
  for (int nodes = 1; nodes <= 40; ++nodes)
    for (int root = 0; root < nodes; ++root) {
      int bits = 0;
      while (1 << bits < nodes)
        ++bits;
      std::vector<int> arrivals(static_cast<std::size_t>(nodes));
      for (int node = 0; node < nodes; ++node)
        for (const int child : tree(nodes, root, node).children) {
          EXPECT_EQ(tree(nodes, root, child).parent, node);
          ++arrivals[static_cast<std::size_t>(child)];
        }
      for (int node = 0; node < nodes; ++node) {
        EXPECT_EQ(arrivals[static_cast<std::size_t>(node)], node == root ? 0 : 1);
        int depth = 0;
        for (int at = node; at != root && depth <= bits; at = tree(nodes, root, at).parent)
          ++depth;
        EXPECT_LE(depth, bits);
      }
    }
}

} // namespace
} // namespace ostraka::comm::test
