// SPDX-License-Identifier: Apache-2.0
// What a training run would hold, send and take, from the rules that a context runs by. Nothing is allocated; no MPI.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/plan/report.hpp>
#include <ostraka/plan/request.hpp>

namespace ostraka::plan {

/// Throws as validate(). Time and memory grow with the tensors of all units and with the hooks of a step; with ranks
/// only where nodes differ.
OSTRAKA_API Report dry_run(const Request& request);

} // namespace ostraka::plan
