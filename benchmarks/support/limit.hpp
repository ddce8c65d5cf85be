// SPDX-License-Identifier: Apache-2.0
// What the memory of a node allows: the copies or sums of an operation between private buffers, by all ranks at once,
// without a word between them.
#pragma once

#include "sampling.hpp"
#include <ostraka/base/dtype.hpp>

#include <cstdint>

namespace ostraka::bench {

/// What one rank does: the sum of `sources` runs of `bytes` bytes, written to `outs` places. One source is a copy.
struct Work {
  int sources = 1;
  int outs = 1;
  std::int64_t bytes = 0;
  bool in_place = false; ///< the places are the sources
};

/// Through the caches or around them, whichever is faster on this machine. Collective.
Operation make_limit(const Work& work, DType dtype);

} // namespace ostraka::bench
