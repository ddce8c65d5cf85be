// SPDX-License-Identifier: Apache-2.0
// What a dry run finds. Bytes, elements and seconds.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/memory_report.hpp>
#include <ostraka/fsdp/recipe.hpp>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace ostraka::plan {

/// By purpose, of one rank or of all ranks of a node. What ranks share counts once for a node, and in its own part for
/// a rank. After a step, but for the peaks, which are of the whole run.
struct Bytes {
  std::int64_t model_weights = 0; ///< at rest, storage type
  std::int64_t main_weights = 0;  ///< of another type or place than model weights
  std::int64_t main_gradients = 0;
  std::int64_t addends = 0;        ///< reduced contributions on their way into main gradients
  std::int64_t moments = 0;        ///< state of the optimizer
  std::int64_t slots_peak = 0;     ///< gradient slots
  std::int64_t gathered_peak = 0;  ///< whole weights while modules run
  std::int64_t scratch_peak = 0;   ///< of reductions over several axes
  std::int64_t transient_peak = 0; ///< of slots, gathered weights and scratch together: at most the sum of the three
  std::int64_t shared_memory = 0;  ///< of all this, in /dev/shm
  std::int64_t total = 0;          ///< at rest: weights, gradients, moments
  std::int64_t peak = 0;           ///< at rest, and the transient peak

  bool operator==(const Bytes&) const = default;
};

enum class Collective : std::int32_t { allgather = 0, reduce_scatter = 1, allreduce = 2, agreement = 3 };
constexpr int num_collectives = 4;
OSTRAKA_API const char* name(Collective collective);

/// One collective operation of a step.
struct Call {
  Collective kind;
  int axis;   ///< of the mesh; -1: all ranks
  int module; ///< -1: none
  int group;  ///< of the module
  DType dtype;
  std::int64_t count; ///< elements of the whole that the ranks of the axis gather or reduce
  std::int64_t sent;  ///< bytes that leave this rank (see AxisTraffic)
  std::int64_t received;

  bool operator==(const Call&) const = default;
};

/// On one axis in one step, of one rank. What ranks read in each other's memory is not sent. Where MPI or NCCL carries
/// a collective whole, bytes are those of the ring algorithm, which no algorithm undercuts for gathers and
/// reduce-scatters: (n-1)/n of the whole each way, twice that for all-reduces.
struct AxisTraffic {
  std::string name;
  int size = 1;
  std::string backend; ///< "self", "mpi", "node", "hierarchical" or "nccl": what carries this rank's line
  std::array<std::int64_t, num_collectives> collectives{}; ///< by Collective
  std::int64_t sent = 0;
  std::int64_t received = 0;
  std::int64_t moved = 0; ///< bytes of the wholes that were gathered or reduced, whoever carried them
};

/// Something on the time line of a step.
struct Span {
  enum class Track : std::int32_t { compute = 0, gather = 1, reduce = 2 };
  Track track;
  int module;            ///< -1: none
  std::string operation; ///< "forward", "backward", "allgather", "reduce_scatter", "allreduce", "cast", "update", ...
  double begin_s;
  double end_s;
  std::int64_t bytes; ///< that the operation reads or sends
};
OSTRAKA_API const char* name(Span::Track track);

struct Report {
  fsdp::Recipe recipe = fsdp::Recipe::zero_3; ///< of the request, unless placements were given
  std::vector<std::string> modules;           ///< names
  int rank = 0;                               ///< the one that is reported
  int node = 0;                               ///< its node
  int node_ranks = 1;                         ///< ranks on it

  Bytes bytes;      ///< of the rank
  Bytes node_bytes; ///< of its node
  /// What FsdpContext::memory() and node_memory() say on the rank after a step.
  fsdp::MemoryReport memory;
  fsdp::MemoryReport node_memory;

  std::int64_t elements = 0;         ///< of all parameters
  std::int64_t padding_elements = 0; ///< that layouts add
  double bytes_per_parameter = 0;    ///< of the rank, at rest
  /// The same from types and numbers of parts alone: without padding, what several ranks share counted in parts.
  double formula_bytes_per_parameter = 0;

  int gradient_slots = 0; ///< of the ring, bounds applied
  std::vector<AxisTraffic> axes;
  std::vector<Call> calls; ///< of a step that is not the first, in the order of the calls of the library

  std::vector<Span> spans; ///< of that step, on the rank, by begin
  double step_s = 0;
  double arithmetic_s = 0; ///< of the modules
  double exposed_s = 0;    ///< the rest: communication and updates that no arithmetic hides
};

} // namespace ostraka::plan
