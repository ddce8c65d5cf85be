// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ostraka::comm {

/// A contiguous run of elements that goes to or comes from rank `peer` of a group. `offset` counts elements from the
/// begin of this rank's operand.
struct Transfer {
  int peer;
  std::int64_t offset;
  std::int64_t count;

  bool operator==(const Transfer&) const = default;
};

} // namespace ostraka::comm
