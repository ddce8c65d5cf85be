// SPDX-License-Identifier: Apache-2.0
// What a dry run is asked about: a network, a machine and how the network is spread over it. Source: design section 7.
#pragma once

#include <ostraka/fsdp/parameter_spec.hpp>
#include <ostraka/fsdp/recipe.hpp>
#include <ostraka/fsdp/schedule.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::plan {

/// A module, or several equal ones.
struct Unit {
  std::string name;                            ///< distinct among siblings; of several modules "name.0", "name.1", ...
  int count = 1;                               ///< >= 1 modules one behind the other
  std::vector<fsdp::ParameterSpec> parameters; ///< of one module; may be empty
  double forward_s = 0; ///< seconds of arithmetic of one module in one micro-batch, its children not included
  double backward_s = 0;
  std::optional<int> parent = {}; ///< an earlier unit, of count 1, around these modules; none: outermost
  fsdp::Precision precision = {}; ///< what is not set is as the configuration says

  /// How much is gathered ahead where this module starts; none: as the configuration says.
  struct Prefetch {
    std::optional<std::int64_t> elements; ///< as ContextConfig::prefetch
  };
  std::optional<Prefetch> prefetch = {};
  double gradient_divisor = 1; ///< > 0, as FsdpModule::set_gradient_divisor
};

/// Of a mesh: outer axes first, the last one fastest.
struct Axis {
  std::string name; ///< distinct
  int size = 1;     ///< ranks, >= 1
};

enum class Backend : std::int32_t {
  mpi = 0,  ///< MPI carries everything
  node = 1, ///< ranks of a node share memory, MPI between nodes
  nccl = 2, ///< GPUs, each with memory of its own
};
OSTRAKA_API const char* name(Backend backend);

enum class Optimizer : std::int32_t { none = 0, sgd = 1, sgd_momentum = 2, adamw = 3 };
OSTRAKA_API const char* name(Optimizer optimizer);

/// An operation that was measured.
struct Timing {
  std::int64_t bytes;
  double seconds;
};

/// What a message of one rank takes: latency_s + bytes / bandwidth.
struct Link {
  double latency_s = 5e-6;
  double bandwidth = 10e9; ///< bytes per second and rank, one direction; > 0

  /// Instead of both, for collectives that `ranks` ranks were measured to make: by bytes of the whole, ascending. A
  /// kind without timings is as above. See calibration.
  struct Measured {
    int ranks = 0;
    std::vector<Timing> allgather = {};
    std::vector<Timing> reduce_scatter = {};
    std::vector<Timing> allreduce = {};
  };
  Measured measured = {};
};

/// For times only. A collective of n ranks takes its rounds of latency and what one rank sends or receives.
struct Machine {
  std::vector<Link> axes = {};    ///< [axis]; empty: all as `network`
  Link network = {};              ///< between nodes, and within them where MPI or NCCL carries everything
  Link node = {1e-6, 10e9};       ///< between ranks that share memory: per operation and rank
  double memory_bandwidth = 10e9; ///< bytes per second that one rank reads and writes in casts, sums and updates; > 0
  /// The share of gathers and reductions, 0 to 1, that runs beside the arithmetic. None: 1 for NCCL; 0 for MPI and node
  /// memory, where the rank's own core copies and sums, and nothing moves messages while it is away.
  std::optional<double> overlap = {};
};

struct Request {
  std::vector<Unit> units;
  std::vector<Axis> mesh;
  Backend backend = Backend::node;
  int ranks_per_node = 0;          ///< consecutive ranks; the last node may have fewer; 0: all ranks on one node
  std::vector<int> nodes = {};     ///< instead: [rank], the number of its node, 0 <= number < ranks; empty: as above
  fsdp::ContextConfig config = {}; ///< as a context takes it
  Optimizer optimizer = Optimizer::adamw;
  bool fuse_with_reduction = false; ///< updates run while gradients are reduced
  int micro_batches = 1;            ///< of a step, >= 1
  /// Last-level caches of a node, which bound the ring of gradient slots where all ranks are on one node and
  /// ContextConfig::gradient_slot_bytes is not set. None: no bound.
  std::optional<std::int64_t> cache_bytes = {};
  Machine machine = {};
  /// Which rank to report; none: the one that holds most.
  std::optional<int> rank = {};

  /// Hooks of the two passes of a micro-batch, of modules by their number in modules(); empty: every module once, in
  /// the order of the units, a module around its children, and backwards. As an application calls them.
  std::vector<fsdp::Event> forward = {};
  std::vector<fsdp::Event> backward = {};

  /// Ranks of the mesh.
  std::int64_t ranks() const;
};

/// The modules of `units` in the order of add_module: the unit of each, and its name from the root.
struct Module {
  int unit;
  std::string name;
  std::optional<int> parent; ///< module
};
OSTRAKA_API std::vector<Module> modules(const std::vector<Unit>& units);

/// Throws INVALID_ARGUMENT (or TYPE_MISMATCH, NOT_SUPPORTED) as the calls of a context would, naming unit, parameter or
/// setting, what was expected and what was found.
OSTRAKA_API void validate(const Request& request);

} // namespace ostraka::plan
