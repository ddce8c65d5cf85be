// SPDX-License-Identifier: Apache-2.0
// What a machine does in a second.
#pragma once

#include "model_file.hpp"
#include <ostraka/plan/request.hpp>

#include <cstdint>
#include <string>

namespace ostraka::tool {

/// Sets request.machine, and the seconds of those units whose model file says none: as "units" has them, else from
/// "flops" of one rank and `samples` per micro-batch that each parameter meets (2 operations forward, 4 backward, per
/// element of matrices). {"network": LINK, "node": LINK, "axes": {NAME: LINK}, "memory_bandwidth": B,
/// "overlap": SHARE, "flops": F, "units": {NAME: {"forward_s": S, "backward_s": S}}}; LINK: {"latency_s": S,
/// "bandwidth": B, "measured": {"ranks": N, "allgather": [[BYTES, S], ...], "reduce_scatter": ..., "allreduce": ...}};
/// B: bytes per second, or "25 GB/s". What `collectives --json` of the benchmarks writes is one. Throws
/// INVALID_ARGUMENT that names file and place.
void read_machine(const std::string& path, const Model& model, std::int64_t samples, plan::Request& request,
                  const Warn& warn);

} // namespace ostraka::tool
