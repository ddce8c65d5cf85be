// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/fsdp/module_tree.hpp>
#include <ostraka/plan/request.hpp>

#include <algorithm>
#include <cmath>
#include <set>

namespace ostraka::plan {

namespace {

constexpr Status bad = Status::INVALID_ARGUMENT;

void check_positive(double value, const std::string& what) {
  expect(std::isfinite(value) && value > 0, bad, what, ": expected a finite number > 0, found ", value);
}

void check_not_negative(double value, const std::string& what) {
  expect(std::isfinite(value) && value >= 0, bad, what, ": expected a finite number >= 0, found ", value);
}

void check_parameters(const Unit& unit, const std::string& where) {
  std::set<std::string> names;
  for (const fsdp::ParameterSpec& spec : unit.parameters) {
    expect(!spec.name.empty(), bad, where, ": a parameter name is empty");
    expect(names.insert(spec.name).second, bad, where, ": parameter '", spec.name, "' exists twice");
    expect(spec.dtype == DType::f64 || spec.dtype == DType::f32 || spec.dtype == DType::bf16, Status::TYPE_MISMATCH,
           where, ", parameter '", spec.name, "': expected a storage type of f64, f32 or bf16, found ",
           ostraka::name(spec.dtype));
    try {
      layout::numel(spec.shape);
    } catch (const Error& error) {
      throw Error(error.status(), where + ", parameter '" + spec.name + "': " + error.what());
    }
  }
}

void check_unit(const std::vector<Unit>& units, std::size_t index) {
  const Unit& unit = units[index];
  const std::string where = "unit " + std::to_string(index) + " ('" + unit.name + "')";
  expect(!unit.name.empty(), bad, "unit ", index, ": the name is empty");
  expect(unit.count >= 1, bad, where, ": expected a count >= 1, found ", unit.count);
  check_parameters(unit, where);
  check_not_negative(unit.forward_s, where + ": forward_s");
  check_not_negative(unit.backward_s, where + ": backward_s");
  check_positive(unit.gradient_divisor, where + ": gradient_divisor");
  fsdp::validate(unit.precision, where);
  expect(!unit.prefetch || !unit.prefetch->elements || *unit.prefetch->elements >= 0, bad, where,
         ": expected prefetch >= 0 elements, or none");
  if (!unit.parent)
    return;
  expect(index > 0, bad, where, ": the first unit has no parent, found ", *unit.parent);
  expect(*unit.parent >= 0 && *unit.parent < static_cast<int>(index), bad, where,
         ": expected a parent before it, from 0 to ", static_cast<int>(index) - 1, ", found ", *unit.parent);
  expect(units[static_cast<std::size_t>(*unit.parent)].count == 1, bad, where, ": its parent, unit ", *unit.parent,
         ", is several modules; expected one");
}

void check_mesh(const Request& request) {
  expect(!request.mesh.empty(), bad, "mesh: expected at least one axis, found none");
  std::set<std::string> names;
  for (const Axis& axis : request.mesh) {
    expect(axis.size >= 1, bad, "mesh: expected a size >= 1 of axis '", axis.name, "', found ", axis.size);
    expect(!axis.name.empty() && names.insert(axis.name).second, bad,
           "mesh: axis names must be distinct and not empty, "
           "found '",
           axis.name, "'");
  }
  const std::int64_t ranks = request.ranks();
  narrow(ranks, "mesh: ranks");
  expect(request.ranks_per_node >= 0, bad, "ranks_per_node: expected >= 0, found ", request.ranks_per_node);
  expect(request.nodes.empty() || static_cast<std::int64_t>(request.nodes.size()) == ranks, bad,
         "nodes: expected one number per rank, ", ranks, ", found ", request.nodes.size());
  for (const int node : request.nodes)
    expect(node >= 0 && node < ranks, bad, "nodes: expected numbers from 0 to ", ranks - 1, ", found ", node);
  expect(!request.rank || (*request.rank >= 0 && *request.rank < ranks), bad, "rank: expected 0 to ", ranks - 1,
         ", found ", request.rank.value_or(0));
}

void check_link(const Link& link, const std::string& what) {
  check_not_negative(link.latency_s, what + ": latency_s");
  check_positive(link.bandwidth, what + ": bandwidth");
}

void check_machine(const Request& request) {
  const Machine& machine = request.machine;
  expect(machine.axes.empty() || machine.axes.size() == request.mesh.size(), bad,
         "machine: expected one link per axis, ", request.mesh.size(), ", or none, found ", machine.axes.size());
  for (std::size_t axis = 0; axis < machine.axes.size(); ++axis)
    check_link(machine.axes[axis], "machine: axis '" + request.mesh[axis].name + "'");
  check_link(machine.network, "machine: network");
  check_link(machine.node, "machine: node");
  check_positive(machine.memory_bandwidth, "machine: memory_bandwidth");
  const double overlap = machine.overlap.value_or(0);
  expect(overlap >= 0 && overlap <= 1, bad, "machine: overlap: expected a share from 0 to 1, found ", overlap);
}

enum class Phase : std::int8_t { resting, forward, backward };

// Hooks of one pass, in the order in which a context takes them.
class HookCheck {
public:
  explicit HookCheck(std::size_t modules)
      : phase_(modules, Phase::resting), uses_(modules, 0), recomputes_(modules, 0) {}

  void forward(const fsdp::Event& event, std::size_t position) {
    const std::size_t m = checked(event, position);
    if (event.hook == fsdp::Hook::pre_forward)
      change(m, Phase::resting, Phase::forward, event, position), ++uses_[m];
    else if (event.hook == fsdp::Hook::post_forward)
      change(m, Phase::forward, Phase::resting, event, position);
    else
      refuse(event, position, "expected hooks of a forward pass");
  }

  void backward(const fsdp::Event& event, std::size_t position) {
    const std::size_t m = checked(event, position);
    switch (event.hook) {
    case fsdp::Hook::pre_forward:
      if (recomputes_[m] != 0 || (phase_[m] != Phase::backward && uses_[m] <= 0))
        refuse(event, position, "the module has no use to recompute");
      recomputes_[m] = 1;
      return;
    case fsdp::Hook::post_forward:
      if (recomputes_[m] == 0)
        refuse(event, position, "the module is not being recomputed");
      recomputes_[m] = 0;
      return;
    case fsdp::Hook::pre_backward:
      if (uses_[m] <= 0)
        refuse(event, position, "the module has no forward pass to go back through");
      return change(m, Phase::resting, Phase::backward, event, position);
    case fsdp::Hook::post_backward:
      --uses_[m];
      return change(m, Phase::backward, Phase::resting, event, position);
    default:
      refuse(event, position, "expected hooks of a backward pass");
    }
  }

  void end(const char* pass) const {
    for (std::size_t m = 0; m < phase_.size(); ++m)
      expect(phase_[m] == Phase::resting && recomputes_[m] == 0, bad, pass, ": module ", m,
             " is not closed at the end");
  }

private:
  std::size_t checked(const fsdp::Event& event, std::size_t position) const {
    if (event.module < 0 || event.module >= static_cast<int>(phase_.size()))
      fail(bad, "hook ", position, ": expected a module from 0 to ", static_cast<int>(phase_.size()) - 1, ", found ",
           event.module);
    return static_cast<std::size_t>(event.module);
  }

  void change(std::size_t module, Phase from, Phase to, const fsdp::Event& event, std::size_t position) {
    if (phase_[module] != from || recomputes_[module] != 0)
      refuse(event, position, "the module is in another phase");
    phase_[module] = to;
  }

  [[noreturn]] static void refuse(const fsdp::Event& event, std::size_t position, const char* why) {
    fail(bad, "hook ", position, " (", fsdp::name(event.hook), " of module ", event.module, "): ", why);
  }

  std::vector<Phase> phase_;
  std::vector<int> uses_;
  std::vector<char> recomputes_;
};

void check_hooks(const Request& request) {
  expect(request.forward.empty() == request.backward.empty(), bad,
         "hooks: expected those of both passes, or of none, found ", request.forward.size(), " and ",
         request.backward.size());
  if (request.forward.empty())
    return;
  HookCheck check(modules(request.units).size());
  for (std::size_t k = 0; k < request.forward.size(); ++k)
    check.forward(request.forward[k], k);
  check.end("forward");
  for (std::size_t k = 0; k < request.backward.size(); ++k)
    check.backward(request.backward[k], k);
  check.end("backward");
}

} // namespace

const char* name(Backend backend) {
  switch (backend) {
  case Backend::mpi:
    return "mpi";
  case Backend::node:
    return "node";
  case Backend::nccl:
    return "nccl";
  }
  return "unknown";
}

const char* name(Optimizer optimizer) {
  switch (optimizer) {
  case Optimizer::none:
    return "none";
  case Optimizer::sgd:
    return "sgd";
  case Optimizer::sgd_momentum:
    return "sgd_momentum";
  case Optimizer::adamw:
    return "adamw";
  }
  return "unknown";
}

std::int64_t Request::ranks() const {
  std::int64_t ranks = 1;
  for (const Axis& axis : mesh)
    ranks = multiply(ranks, axis.size, "mesh: product of the axis sizes");
  return ranks;
}

std::vector<Module> modules(const std::vector<Unit>& units) {
  std::vector<Module> modules;
  std::vector<int> first; // module of each unit
  for (std::size_t u = 0; u < units.size(); ++u) {
    const Unit& unit = units[u];
    first.push_back(narrow(static_cast<std::int64_t>(modules.size()), "modules"));
    std::optional<int> parent;
    if (unit.parent)
      parent = first[static_cast<std::size_t>(*unit.parent)];
    const std::string prefix = parent ? modules[static_cast<std::size_t>(*parent)].name + "." : "";
    for (int k = 0; k < unit.count; ++k)
      modules.push_back(
          {static_cast<int>(u), prefix + unit.name + (unit.count > 1 ? "." + std::to_string(k) : ""), parent});
  }
  return modules;
}

void validate(const Request& request) {
  expect(!request.units.empty(), bad, "units: expected at least one, found none");
  for (std::size_t unit = 0; unit < request.units.size(); ++unit)
    check_unit(request.units, unit);
  std::set<std::string> names;
  for (const Module& module : modules(request.units))
    expect(names.insert(module.name).second, bad, "units: two modules are named '", module.name, "'");
  check_mesh(request);
  expect(name(request.backend) != std::string("unknown"), bad,
         "backend: expected mpi (0), node (1) or nccl (2), found ", static_cast<std::int32_t>(request.backend));
  expect(name(request.optimizer) != std::string("unknown"), bad,
         "optimizer: expected none (0), sgd (1), sgd_momentum (2) or adamw (3), found ",
         static_cast<std::int32_t>(request.optimizer));
  expect(!request.fuse_with_reduction || request.optimizer != Optimizer::none, bad,
         "fuse_with_reduction: expected an optimizer, found none");
  expect(request.micro_batches >= 1, bad, "micro_batches: expected >= 1, found ", request.micro_batches);
  expect(!request.cache_bytes || *request.cache_bytes >= 0, bad, "cache_bytes: expected >= 0, found ",
         request.cache_bytes.value_or(0));
  fsdp::validate(request.config, static_cast<int>(request.mesh.size()));
  check_machine(request);
  check_hooks(request);
}

} // namespace ostraka::plan
