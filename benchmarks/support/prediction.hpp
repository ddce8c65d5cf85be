// SPDX-License-Identifier: Apache-2.0
// What the room plan foresees for a step of the benchmark, on a machine that `collectives --json` measured.
#pragma once

#include "steps.hpp"
#include <ostraka/plan/request.hpp>

#include <string>
#include <vector>

namespace ostraka::bench {

/// Seconds of all layers of a micro-batch.
struct Arithmetic {
  double forward = 0;
  double backward = 0;
};

/// The files of `collectives --json` together: of messages, of node memory.
plan::Machine read_machine(const std::vector<std::string>& files);

/// Seconds of a step of LibraryStep. Local.
double foreseen_step(const Kind& kind, plan::Backend backend, int ranks, const Arithmetic& arithmetic,
                     const plan::Machine& machine);

} // namespace ostraka::bench
