// SPDX-License-Identifier: Apache-2.0
// What collectives of one rank send, receive and take.
#pragma once

#include <ostraka/plan/impl/topology.hpp>
#include <ostraka/plan/report.hpp>

#include <map>
#include <tuple>

namespace ostraka::plan::impl {

class Network {
public:
  Network(const Request& request, const Topology& topology, int rank);

  struct Cost {
    std::int64_t sent = 0;
    std::int64_t received = 0;
    double seconds = 0;
  };
  /// `axis` -1: all ranks. `count` elements of the whole, in even pieces.
  Cost cost(Collective kind, int axis, std::int64_t count, DType dtype);
  std::string carrier(int axis) const;
  /// The share of gathers and reductions that runs beside the arithmetic.
  double overlap() const { return machine_.overlap.value_or(uses_nccl_ ? 1 : 0); }
  /// Of `bytes` that this rank reads and writes.
  double memory_seconds(std::int64_t bytes) const { return static_cast<double>(bytes) / machine_.memory_bandwidth; }

private:
  struct Line {
    comm::NodeMap map;
    int rank; ///< on the line
    mesh::Carrier carrier;
    Link link;
  };
  Line make_line(const Topology& topology, const std::vector<int>& ranks, int rank, const Link& link) const;
  const Line& line(int axis) const { return axis < 0 ? lines_.back() : lines_[static_cast<std::size_t>(axis)]; }
  Cost find(const Line& line, Collective kind, std::int64_t count, DType dtype) const;

  Machine machine_;
  bool uses_nccl_;
  bool shares_nodes_;
  std::vector<Line> lines_; ///< [axis], and that of all ranks
  std::map<std::tuple<Collective, int, std::int64_t, DType>, Cost> known_;
};

} // namespace ostraka::plan::impl
