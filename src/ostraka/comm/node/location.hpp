// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ostraka::comm::node {

/// A place in a rank's shared memory as its peers name it: the number of an arena and the offset in the rank's own
/// file. Arena 0 is the room that the channel itself has for small data.
struct Location {
  std::uint64_t arena = 0;
  std::int64_t offset = 0;
};

} // namespace ostraka::comm::node
