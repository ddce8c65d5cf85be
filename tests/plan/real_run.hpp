// SPDX-License-Identifier: Apache-2.0
// A request carried out by the library, and what can be seen of that.
#pragma once

#include "support/mpi_calls.hpp"
#include "support/world.hpp"
#include <ostraka/comm/node/node.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/optim/optimizer.hpp>
#include <ostraka/plan/dry_run.hpp>
#include <ostraka/runtime/trace.hpp>

#include <nlohmann/json.hpp>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::plan::test {

using namespace ostraka::test;

/// As the environment of the test says where ranks are.
inline void stand_here(Request& request) {
  const char* backend = std::getenv("OSTRAKA_BACKEND");
  const char* pieces = std::getenv("OSTRAKA_RANKS_PER_NODE");
  request.backend = backend != nullptr && std::string(backend) == "mpi" ? Backend::mpi : Backend::node;
  request.ranks_per_node = pieces != nullptr ? std::atoi(pieces) : 0;
  request.cache_bytes = comm::last_level_cache_bytes();
  request.rank = rank;
}

/// [track]: operations that were traced, sorted, since several may be in flight.
using Traced = std::map<std::string, std::vector<std::string>>;

struct Seen {
  fsdp::MemoryReport memory, node_memory;
  Traced operations; ///< of the last step, by communicator: "allgather of 12 f64"
  MpiCalls calls;    ///< of a step
};

/// All of it is collective.
class RealRun {
public:
  explicit RealRun(const Request& request) : request_(request) {
    std::vector<int> sizes;
    std::vector<std::string> names;
    for (const Axis& axis : request.mesh) {
      sizes.push_back(axis.size);
      names.push_back(axis.name);
    }
    mesh_ = mesh::DeviceMesh::create(MPI_COMM_WORLD, sizes, names);
    context_ = fsdp::FsdpContext::create(mesh_, request.config);
    for (const Module& module : plan::modules(request.units))
      add(module);
    context_->finalize();
    make_optimizer();
  }

  Seen run() {
    Seen seen;
    step();
    mpi_calls = {};
    step();
    seen.calls = mpi_calls;
    seen.operations = traced([&] { step(); });
    seen.memory = context_->memory();
    seen.node_memory = context_->node_memory();
    return seen;
  }

private:
  void add(const Module& module) {
    const Unit& unit = request_.units[static_cast<std::size_t>(module.unit)];
    fsdp::FsdpModule* parent = module.parent ? modules_[static_cast<std::size_t>(*module.parent)] : nullptr;
    const std::string name = module.name.substr(parent != nullptr ? parent->full_name().size() + 1 : 0);
    fsdp::FsdpModule& made = parent != nullptr ? parent->add_module(name) : context_->add_module(name);
    modules_.push_back(&made);
    for (const fsdp::ParameterSpec& spec : unit.parameters)
      made.add_parameter(spec);
    made.set_precision(unit.precision);
    made.set_allow_unused(true);
    made.set_gradient_divisor(unit.gradient_divisor);
    if (unit.prefetch)
      made.set_prefetch(unit.prefetch->elements);
    made.build();
  }

  void make_optimizer() {
    switch (request_.optimizer) {
    case Optimizer::none:
      return;
    case Optimizer::adamw:
      optimizer_ = optim::make_adamw(context_->named_states(), {});
      break;
    default:
      const double momentum = request_.optimizer == Optimizer::sgd_momentum ? 0.5 : 0;
      optimizer_ = optim::make_sgd(context_->named_states(), {0.1, momentum, 0});
    }
    if (request_.fuse_with_reduction)
      optimizer_->fuse_with_reduction();
  }

  void step() {
    context_->zero_grad();
    for (int k = 0; k < request_.micro_batches; ++k) {
      context_->set_last_microbatch(k == request_.micro_batches - 1);
      pass();
    }
    if (optimizer_ != nullptr)
      optimizer_->step();
  }

  void pass() {
    fsdp::ModuleTree tree;
    for (const fsdp::FsdpModule* module : modules_)
      tree.add(module->name(), module->parent() != nullptr ? std::optional(module->parent()->id()) : std::nullopt);
    for (const fsdp::Event& event : request_.forward.empty() ? tree.forward() : request_.forward)
      run(event);
    context_->begin_backward();
    for (const fsdp::Event& event : request_.backward.empty() ? tree.backward() : request_.backward)
      run(event);
    context_->finish_backward();
  }

  void run(fsdp::Event event) {
    fsdp::FsdpModule& module = *modules_[static_cast<std::size_t>(event.module)];
    switch (event.hook) {
    case fsdp::Hook::pre_forward:
      return module.pre_forward();
    case fsdp::Hook::post_forward:
      return module.post_forward();
    case fsdp::Hook::pre_backward:
      module.pre_backward();
      return write_gradients(module);
    default:
      return module.post_backward();
    }
  }

  static void write_gradients(fsdp::FsdpModule& module) {
    for (const auto& group : module.groups())
      for (const fsdp::ParameterSpec& spec : group->specs())
        if (spec.trainable) {
          const auto [data, beta] = module.gradient(spec.name, group->gradient_dtype());
          const std::int64_t count = layout::numel(spec.shape);
          if (beta == 0 && count > 0) // empty ones have no address
            std::memset(data, 0, static_cast<std::size_t>(count * size_of(group->gradient_dtype())));
        }
  }

  template <class Body>
  static Traced traced(Body&& body) {
    static int number = 0;
    int process = static_cast<int>(getpid()); // equal on all ranks, as in the file's name
    MPI_Bcast(&process, 1, MPI_INT, 0, MPI_COMM_WORLD);
    const std::string base = "/tmp/ostraka_plan_" + std::to_string(process) + "_" + std::to_string(number++);
    setenv("OSTRAKA_TRACE", (base + ".json").c_str(), 1);
    runtime::trace::start();
    runtime::trace::set_rank(rank);
    body();
    runtime::trace::finish();
    unsetenv("OSTRAKA_TRACE");
    const std::string file = base + "." + std::to_string(rank) + ".json";
    Traced found = read(file);
    unlink(file.c_str());
    return found;
  }

  static Traced read(const std::string& file) {
    std::ifstream in(file);
    const nlohmann::json json = nlohmann::json::parse(in);
    std::map<int, std::string> tracks;
    Traced found;
    for (const auto& event : json.at("traceEvents"))
      if (event.at("name") == "thread_name")
        tracks[event.at("tid")] = event.at("args").at("name");
    for (const auto& event : json.at("traceEvents")) {
      const std::string name = event.at("name"), track = event.at("ph") == "M" ? "" : tracks[event.at("tid")];
      if (track.starts_with("fsdp context"))
        found[track].push_back(name.substr(0, name.find(" of '")));
    }
    for (auto& [track, operations] : found)
      std::sort(operations.begin(), operations.end());
    return found;
  }

  const Request& request_;
  buffer::MeshPtr mesh_;
  std::shared_ptr<fsdp::FsdpContext> context_;
  std::vector<fsdp::FsdpModule*> modules_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

} // namespace ostraka::plan::test
