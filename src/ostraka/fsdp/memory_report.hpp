// SPDX-License-Identifier: Apache-2.0
// What a rank holds, and what the ranks of a node hold together. Pure.
#pragma once

#include <cstdint>

namespace ostraka::fsdp {

/// Bytes on this rank, and the size of the model. Of memory that the ranks of a node share a rank counts its own part,
/// so that sums over ranks count everything once.
struct MemoryReport {
  std::int64_t parameters = 0; ///< weights at rest, main weights included
  std::int64_t gradients = 0;
  std::int64_t optimizer_state = 0;
  std::int64_t transient = 0; ///< gathered weights and gradient slots now
  std::int64_t transient_peak = 0;
  std::int64_t num_elements = 0; ///< of all parameters over all ranks, without padding
  std::int64_t reserved = 0;     ///< taken from the system for all of this

  bool operator==(const MemoryReport&) const = default;
};

} // namespace ostraka::fsdp
