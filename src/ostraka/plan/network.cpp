// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/hierarchical/shares.hpp>
#include <ostraka/comm/partial_type.hpp>
#include <ostraka/plan/calibration.hpp>
#include <ostraka/plan/impl/network.hpp>

#include <algorithm>
#include <bit>

namespace ostraka::plan::impl {

namespace {

// Of the algorithms that double the ranks which know something in each round.
int rounds(int ranks) { return static_cast<int>(std::bit_width(static_cast<unsigned>(std::max(ranks - 1, 0)))); }

double seconds(const Link& link, int rounds, std::int64_t bytes) {
  return rounds * link.latency_s + static_cast<double>(bytes) / link.bandwidth;
}

bool gathers(Collective kind) { return kind != Collective::reduce_scatter; }
bool reduces(Collective kind) { return kind != Collective::allgather; }

} // namespace

Network::Network(const Request& request, const Topology& topology, int rank)
    : machine_(request.machine), uses_nccl_(request.backend == Backend::nccl), shares_nodes_(topology.shares_nodes()) {
  for (int axis = 0; axis < topology.dims(); ++axis) {
    const Link& link = machine_.axes.empty() ? machine_.network : machine_.axes[static_cast<std::size_t>(axis)];
    lines_.push_back(make_line(topology, topology.line(rank, axis), rank, link));
  }
  lines_.push_back(make_line(topology, topology.all(), rank, machine_.network));
}

Network::Line Network::make_line(const Topology& topology, const std::vector<int>& ranks, int rank,
                                 const Link& link) const {
  comm::NodeMap map = topology.map(ranks);
  const auto place = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
  const mesh::Carrier carrier = mesh::carrier_of(map.ranks(), map.nodes(), shares_nodes_);
  return {std::move(map), place, carrier, link};
}

std::string Network::carrier(int axis) const {
  const mesh::Carrier carrier = line(axis).carrier;
  return uses_nccl_ && carrier == mesh::Carrier::mpi ? "nccl" : mesh::name(carrier);
}

Network::Cost Network::cost(Collective kind, int axis, std::int64_t count, DType dtype) {
  const auto [place, is_new] = known_.try_emplace({kind, axis, count, dtype});
  if (is_new)
    place->second = find(line(axis), kind, count, dtype);
  return place->second;
}

Network::Cost Network::find(const Line& line, Collective kind, std::int64_t count, DType dtype) const {
  const int ranks = line.map.ranks();
  const layout::Segments pieces = layout::Segments::even(ranks, count);
  const std::int64_t width = size_of(dtype), piece = pieces.range(line.rank).size();
  const int passes = (gathers(kind) ? 1 : 0) + (reduces(kind) ? 1 : 0);
  switch (line.carrier) {
  case mesh::Carrier::self:
    return {};
  case mesh::Carrier::node:
    return {0, 0,
            measured_seconds(machine_.node, kind, ranks, count * width)
                .value_or(seconds(machine_.node, passes, passes * count * width))};
  case mesh::Carrier::mpi: {
    const std::int64_t bytes = passes * (count - piece) * width;
    return {bytes, bytes,
            measured_seconds(line.link, kind, ranks, count * width)
                .value_or(seconds(line.link, passes * rounds(ranks), bytes))};
  }
  case mesh::Carrier::hierarchical:
    break;
  }
  const comm::Shares shares(line.map, pieces);
  const std::int64_t share = shares.share_size(line.rank), own = piece * (line.map.nodes() - 1);
  const std::int64_t wide = size_of(comm::partial_type(dtype));
  Cost cost;
  if (reduces(kind))
    cost = {share * wide, own * wide, 0};
  if (gathers(kind))
    cost = {cost.sent + own * width, cost.received + share * width, 0};
  cost.seconds = seconds(line.link, passes * rounds(line.map.nodes()), std::max(cost.sent, cost.received)) +
                 seconds(machine_.node, passes, passes * count * width);
  return cost;
}

} // namespace ostraka::plan::impl
