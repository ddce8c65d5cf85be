// SPDX-License-Identifier: Apache-2.0
// Environment variables of the library, read in one place.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstdint>
#include <string>

namespace ostraka::environment {

/// OSTRAKA_CHECK=1: fill released memory with NaN, so that a stale pointer shows, and compare every collective
/// operation between the ranks before it starts. Default off.
OSTRAKA_API bool check();

/// OSTRAKA_BACKEND: node (default: ranks of a node share memory, MPI carries the rest) or mpi (MPI carries everything).
/// Memory of GPUs goes by NCCL with both; staged: it goes through host memory and MPI.
enum class Backend { mpi, node, staged };
OSTRAKA_API Backend backend();

/// OSTRAKA_RANKS_PER_NODE: cuts a machine into pretend nodes of so many consecutive ranks, for tests; 0, the default:
/// no.
OSTRAKA_API int ranks_per_node();

/// OSTRAKA_DEVICE: where meshes have their memory that name none: host (default), cuda, or cuda:N for GPU N of the
/// machine instead of the one that the rank on the machine says.
struct DeviceSetting {
  bool is_cuda = false;
  int index = -1; ///< -1: not said
};
OSTRAKA_API DeviceSetting device();

/// OSTRAKA_NCCL_SPLIT: how communicators of NCCL for the axes of a mesh are made. own (default): split from one of all
/// ranks, with resources of their own, so that gathers and reductions run at a time; shared: split, with the resources
/// of that one, which takes less memory and time to start, but operations may wait for each other; off: each by itself.
enum class NcclSplit { own, shared, off };
OSTRAKA_API NcclSplit nccl_split();

/// The rank among those on this machine, as the launcher tells it by environment variables; 0 where it does not.
OSTRAKA_API int local_rank();

/// OSTRAKA_COUNT_LIMIT: elements that one MPI call may count, from 1 to the default, 2^31 - 1; larger operations take
/// several calls. For tests.
OSTRAKA_API std::int64_t count_limit();

/// OSTRAKA_TIMEOUT_S: seconds that a wait for peers may take, 0 = for ever. Default 300.
OSTRAKA_API double timeout_seconds();

/// OSTRAKA_LOG_LEVEL: none (default), warn (what failed) or info (also what was set up), as 0, 1, 2.
OSTRAKA_API int log_level();

/// OSTRAKA_TRACE: the file of a Chrome trace of every operation, "trace.json" becoming "trace.0.json" on rank 0. Empty
/// (default) = none.
OSTRAKA_API std::string trace_file();

} // namespace ostraka::environment
