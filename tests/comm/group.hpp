// SPDX-License-Identifier: Apache-2.0
// Communicators of all ranks, pieces and operands for them.
#pragma once

#include "support/elements.hpp"
#include "support/expect_error.hpp"
#include "support/world.hpp"
#include <ostraka/comm/communicator.hpp>
#include <ostraka/comm/hierarchical/hierarchical_communicator.hpp>
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/node_arena.hpp>
#include <ostraka/comm/node/node_communicator.hpp>
#include <ostraka/comm/self/self_communicator.hpp>

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::comm::test {

using namespace ostraka::test;
using layout::ReduceOp;
using layout::Segments;

constexpr ReduceOp all_reductions[] = {ReduceOp::sum, ReduceOp::mean, ReduceOp::max, ReduceOp::min, ReduceOp::prod};

constexpr std::int64_t no_limit = std::numeric_limits<std::int32_t>::max();
constexpr MpiSettings plain{false, no_limit}, checked{true, no_limit};

/// Ways to run every operation: whole or in parts of several sizes, compared between the ranks or not. Fewer on many
/// ranks, which have few cores.
inline std::vector<MpiSettings> all_settings() {
  if (ranks > 4)
    return {plain, {true, 7}};
  return {plain, {false, 1}, {false, 7}, {false, 64}, checked, {true, 7}};
}

/// Collective.
inline std::shared_ptr<Communicator> mpi_group(const std::string& name, MpiSettings settings = plain) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  return make_mpi_communicator(copy, name, settings);
}

/// What all ranks, as one node, share; null until the first node_group().
inline std::shared_ptr<memory::Arena>& node_arena() {
  static std::shared_ptr<memory::Arena> arena;
  return arena;
}

/// Collective.
inline std::shared_ptr<Communicator> node_group(const std::string& name) {
  if (node_arena() == nullptr)
    node_arena() = node::make_node_arena(MPI_COMM_WORLD);
  return make_node_communicator(MPI_COMM_WORLD, name, node_arena());
}

/// The ranks on pretend nodes: node_of[rank] is their number. Collective.
inline std::shared_ptr<Communicator> hierarchical_group(const std::string& name, const std::vector<int>& node_of,
                                                        MpiSettings settings = plain) {
  if (node_arena() == nullptr)
    node_arena() = node::make_node_arena(MPI_COMM_WORLD);
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  return make_hierarchical_communicator(copy, name, NodeMap(node_of), node_arena(), settings);
}

/// node_of(rank) for all ranks.
template <class NodeOf>
std::vector<int> nodes_by(NodeOf&& node_of) {
  std::vector<int> nodes;
  for (int r = 0; r < ranks; ++r)
    nodes.push_back(node_of(r));
  return nodes;
}

/// Nodes of two and of three ranks, the last one smaller; ranks dealt out to two nodes; the first or the last rank with
/// a node for itself; nodes of one to three ranks in no order.
inline std::vector<std::vector<int>> all_node_maps() {
  constexpr int unordered[] = {4, 1, 4, 2, 1, 3, 4, 3};
  return {nodes_by([](int r) { return r / 2; }),
          nodes_by([](int r) { return r / 3; }),
          nodes_by([](int r) { return r % 2; }),
          nodes_by([](int r) { return r == 0 ? 0 : 1; }),
          nodes_by([](int r) { return r == ranks - 1 ? 0 : 1; }),
          nodes_by([&](int r) { return unordered[r % 8]; })};
}

inline std::string text(const std::vector<int>& node_of) {
  std::string text = "nodes";
  for (const int node : node_of)
    text += " " + std::to_string(node);
  return text;
}

/// All back ends of one level that fit; the node has no settings. Collective.
inline std::vector<std::shared_ptr<Communicator>> flat_groups(const std::string& name, MpiSettings settings = plain) {
  std::vector<std::shared_ptr<Communicator>> groups{mpi_group(name, settings)};
  if (ranks == 1)
    groups.push_back(make_self_communicator(name));
  else if (!settings.checks && settings.count_limit == no_limit)
    groups.push_back(node_group(name + " (node)"));
  return groups;
}

/// The same and pretend nodes, others with each call. Collective.
inline std::vector<std::shared_ptr<Communicator>> all_groups(const std::string& name, MpiSettings settings = plain) {
  static std::size_t calls = 0;
  std::vector<std::shared_ptr<Communicator>> groups = flat_groups(name, settings);
  if (ranks > 1) {
    const std::vector<std::vector<int>> maps = all_node_maps();
    groups.push_back(hierarchical_group(name + " (hierarchical)", maps[calls++ % maps.size()], settings));
  }
  return groups;
}

inline std::string text(MpiSettings settings) {
  return std::string(settings.checks ? "checked" : "plain") + ", limit " + std::to_string(settings.count_limit);
}

/// One segment of each length, for all ranks.
inline Segments pieces(const std::vector<std::int64_t>& lengths) {
  Segments segments;
  for (const std::int64_t length : lengths)
    segments.append(1, length);
  return segments;
}

/// Rank k's piece has length(k) elements.
template <class Length>
Segments pieces_by(Length&& length) {
  std::vector<std::int64_t> lengths;
  for (int k = 0; k < ranks; ++k)
    lengths.push_back(length(k));
  return pieces(lengths);
}

inline std::string text(const Segments& segments) {
  std::string text = "pieces";
  for (int k = 0; k < segments.count(); ++k)
    text += " " + std::to_string(segments.range(k).size());
  return text;
}

/// Equal and ragged, empty ones among them, all empty, one rank owns everything.
inline std::vector<Segments> all_pieces() {
  std::vector<Segments> all;
  for (const std::int64_t length : {0, 1, 5, 61})
    all.push_back(Segments::equal(ranks, length));
  all.push_back(pieces_by([](int k) { return 2 + k; }));         // case 6 of the spec on four ranks
  all.push_back(pieces_by([](int k) { return k < 3 ? 5 : 0; })); // three rows: case 7 on eight ranks
  all.push_back(pieces_by([](int k) { return k == 0 ? 17 : 0; }));
  all.push_back(pieces_by([](int k) { return k == ranks - 1 ? 17 : 0; }));
  all.push_back(pieces_by([](int k) { return k % 2 == 0 ? 0 : 7; }));
  all.push_back(pieces_by([](int k) { return k == 0 ? 100 : k % 3; }));
  return all;
}

/// Storage that holds `values` in `dtype`: of ranks that share memory two thirds stand there, other ones on each rank.
inline Operand operand(const std::vector<double>& values, DType dtype) {
  static const auto own = memory::make_host_arena();
  static int number = rank;
  const auto arena = node_arena() != nullptr && number++ % 3 != 0 ? node_arena() : own;
  const std::vector<std::byte> bytes = encode(values, dtype);
  const auto storage =
      std::make_shared<memory::Storage>(arena, static_cast<std::int64_t>(bytes.size()), memory::Kind::other);
  if (!bytes.empty())
    std::memcpy(storage->data(), bytes.data(), bytes.size());
  return {storage, 0};
}

inline Operand operand(std::int64_t count, double value, DType dtype) {
  return operand(std::vector<double>(static_cast<std::size_t>(count), value), dtype);
}

/// The part of `whole` from element `first` on.
inline Operand part(const Operand& whole, std::int64_t first, DType dtype) {
  return {whole.storage, whole.byte_offset + first * width_of(dtype)};
}

inline std::vector<double> values(const Operand& from, std::int64_t count, DType dtype) {
  return count == 0 ? std::vector<double>{} : elements(from.data(), count, dtype);
}

} // namespace ostraka::comm::test
