// SPDX-License-Identifier: Apache-2.0
#include <ostraka/mesh/sharing.hpp>

#include <algorithm>

namespace ostraka::mesh {

const char* name(Carrier carrier) {
  switch (carrier) {
  case Carrier::self:
    return "self";
  case Carrier::mpi:
    return "mpi";
  case Carrier::node:
    return "node";
  case Carrier::hierarchical:
    return "hierarchical";
  }
  return "unknown";
}

Carrier carrier_of(int size, int nodes, bool shares_nodes) {
  if (size == 1)
    return Carrier::self; // a group of one needs no messages
  if (!shares_nodes || nodes == size)
    return Carrier::mpi;
  return nodes > 1 ? Carrier::hierarchical : Carrier::node;
}

bool are_all_parts(std::vector<std::int64_t> parts, std::int64_t count) {
  std::sort(parts.begin(), parts.end());
  return std::unique(parts.begin(), parts.end()) - parts.begin() == count;
}

} // namespace ostraka::mesh
