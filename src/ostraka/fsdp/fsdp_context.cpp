// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/hash.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/comm/node/node.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <algorithm>
#include <array>
#include <set>

namespace ostraka::fsdp {

namespace {

std::vector<comm::Setting> settings_of(const ContextConfig& config) {
  Hash placements;
  if (config.placements)
    for (const auto* list :
         {&config.placements->parameter, &config.placements->gradient, &config.placements->optimizer})
      for (const layout::Placement& placement : *list)
        placements.add(placement.kind);
  return {comm::setting("recipe", static_cast<std::int32_t>(config.recipe)),
          {config.placements ? "placements (here by hand)" : "placements (here none)", placements.value()},
          comm::setting("reduction", static_cast<std::int32_t>(config.reduction)),
          comm::setting("gradient_slots", config.gradient_slots),
          comm::setting("gradient_slot_bytes", config.gradient_slot_bytes.value_or(-1)),
          comm::setting("broadcast", config.broadcast ? 1 : 0),
          comm::setting("prefetch", config.prefetch.value_or(-1)),
          comm::setting("unified_stream", config.unified_stream ? 1 : 0),
          comm::setting("main_dtype", config.main_dtype),
          comm::setting("compute_dtype", config.compute_dtype),
          comm::setting("reduction_dtype", config.reduction_dtype)};
}

// Of the whole weights: the node's where they rest, else of the ranks of a node that gather together.
std::shared_ptr<comm::SharedMemory> make_shared_memory(const mesh::DeviceMesh& mesh,
                                                       const layout::Placements& parameter, bool rests_whole) {
  if (rests_whole)
    return mesh.make_shared_memory();
  return mesh.shares_nodes() && shares_gathers(parameter) ? mesh.make_shared_memory(mesh.dims() - 1) : nullptr;
}

// Of one rank.
std::int64_t most_slot_bytes(const mesh::DeviceMesh& mesh, const ContextConfig& config) {
  const bool is_one_node = mesh.shares_nodes() && mesh.node_size() == mesh.size();
  return most_slot_bytes(config, is_one_node, mesh.node_size(), comm::last_level_cache_bytes());
}

} // namespace

std::shared_ptr<FsdpContext> FsdpContext::create(buffer::MeshPtr mesh, ContextConfig config) {
  runtime::require_initialized("context");
  expect(mesh != nullptr, Status::INVALID_ARGUMENT, "context: the mesh is null");
  comm::Communicator& all = *mesh->communicators().all;
  comm::together(all, [&] { validate(config, mesh->dims()); });
  comm::agree_on_settings(all, settings_of(config), "context: configuration: ");
  return std::shared_ptr<FsdpContext>(new FsdpContext(std::move(mesh), config));
}

FsdpContext::FsdpContext(buffer::MeshPtr mesh, ContextConfig config)
    : status_(
          "context",
          [this] {
            const comm::SharedMemory* shared = resources_->shared.get();
            return resources_->communicators.have_failed() || (shared != nullptr && shared->has_failed());
          },
          [this](const std::string& cause) {
            if (resources_->shared != nullptr)
              resources_->shared->tell_peers(cause);
          }) {
  mesh::Communicators communicators = mesh->make_communicators("fsdp context");
  RecipePlacements placements = placements_of(config, mesh->dims());
  const bool rests_whole = mesh->shares_nodes() && mesh->nodes_hold_all_parts(placements.parameter);
  placements = placements_where(rests_whole, std::move(placements));
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<comm::SharedMemory> shared;
  comm::together(*communicators.all, [&] { // one node may have too little
    arena = mesh->make_arena();
    shared = make_shared_memory(*mesh, placements.parameter, rests_whole);
  });
  const runtime::Device device = mesh->device();
  const std::shared_ptr<runtime::Stream> gather = runtime::make_queue(device, "gather");
  const auto reduce = config.unified_stream ? gather : runtime::make_queue(device, "reduce");
  GradientSlots slots(arena, config.gradient_slots, most_slot_bytes(*mesh, config));
  resources_ = std::make_shared<Resources>(
      Resources{std::move(mesh), config, placements, std::move(communicators), arena, std::move(shared), rests_whole,
                runtime::compute_stream(device), gather, reduce, std::move(slots)});
}

FsdpContext::~FsdpContext() {
  try {
    if (status_.is_usable()) {
      for (auto& module : modules_)
        module->reshard_groups(); // waits for gathers in flight
      resources_->compute->wait(resources_->reduce->record());
      resources_->compute->hand_over(); // hosts may carry what is waited for
    }
  } catch (const std::exception&) { // the communicators keep what is in flight; there is nobody left to tell
  }
  resources_->is_open = false;
  resources_->communicators = {};
}

FsdpModule& FsdpContext::add_module(std::string name, FsdpModule* parent) {
  expect(!is_finalized_, Status::INVALID_STATE, "add_module('", name,
         "'): the context is finalised; add modules before");
  const int id = tree_.add(name, parent != nullptr ? std::optional(parent->id()) : std::nullopt);
  modules_.push_back(std::make_unique<FsdpModule>(*this, std::move(name), tree_.full_name(id), parent, id));
  if (parent != nullptr)
    parent->children_.push_back(modules_.back().get());
  return *modules_.back();
}

const FsdpModule* FsdpContext::owner_of(const std::string& parameter) const {
  const auto owns = [&](const FsdpModule& module, const std::string& prefix) {
    return parameter.starts_with(prefix) && module.has_parameter(parameter.substr(prefix.size()));
  };
  for (const auto& module : modules_)
    if (owns(*module, module->full_name() + "."))
      return module.get();
  for (const auto& module : modules_)
    if (owns(*module, ""))
      return module.get();
  return nullptr;
}

void FsdpContext::finalize() {
  status_.require_usable();
  expect(!is_finalized_, Status::INVALID_STATE, "finalize: the context is finalised already"); // as on all ranks
  status_.communicate([&] {
    comm::together(*resources_->communicators.all, [&] {
      for (const auto& module : modules_)
        expect(module->is_built() || !module->needs_build_, Status::INVALID_STATE, "finalize: module '",
               module->full_name(), "' is not built, but has parameters; call its build first");
      check_tensor_names();
    });
    check_modules_agree();
    check_or_broadcast_replicas();
  });
  std::vector<ModuleNeeds> needs;
  for (const auto& module : modules_)
    needs.push_back(module->needs());
  walk_.expect_first(tree_, std::move(needs));
  status_.communicate([&] { comm::together(*resources_->communicators.all, [&] { reserve(); }); });
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      group->weights().end_setup();
  if (resources_->shared != nullptr)
    resources_->shared->start();
  is_finalized_ = true;
}

// All or nothing, so that ranks of a node can try again with equal offsets in what they share.
void FsdpContext::reserve() {
  try {
    walk_.reserve(tree_, modules_, resources_->slots);
  } catch (...) {
    for (const auto& module : modules_)
      for (const auto& group : module->groups())
        group->weights().give_back();
    throw;
  }
}

// Tensors are told apart by these names wherever they are kept.
void FsdpContext::check_tensor_names() const {
  std::set<std::string> names;
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      for (int i = 0; i < group->layout().num_tensors(); ++i)
        expect(names.insert(group->full_name(i)).second, Status::INVALID_ARGUMENT, "finalize: two parameters are '",
               group->full_name(i), "'; rename a module or a parameter");
}

void FsdpContext::check_modules_agree() {
  std::vector<comm::Setting> names, settings;
  for (const auto& module : modules_) {
    const std::string& name = module->full_name();
    names.push_back({"module " + std::to_string(names.size() + 1) + " (here '" + name + "')",
                     Hash().add(name).add(module->is_built()).value()});
    settings.push_back({"allow_unused of '" + name + "'", module->allows_unused_ ? 1 : 0});
    settings.push_back({"prefetch of '" + name + "'", module->prefetch_.value_or(-1)});
    settings.push_back({"gradient divisor of '" + name + "'", Hash().add(module->gradient_divisor_).value()});
  }
  comm::Communicator& all = *resources_->communicators.all;
  comm::agree_on_settings(all, names, "finalize: names and order of the modules: ");
  comm::agree_on_settings(all, settings, "finalize: settings: ");
}

// Ranges that several ranks hold must be equal, or the ranks would train different networks.
void FsdpContext::check_or_broadcast_replicas() {
  comm::Communicator& all = *resources_->communicators.all;
  for (const auto& module : modules_)
    for (const auto& group : module->groups()) {
      if (!group->weights().have_replicas())
        continue;
      if (resources_->config.broadcast) {
        group->weights().broadcast();
        continue;
      }
      for (int i = 0; i < group->layout().num_tensors(); ++i)
        comm::agree_on_value(all, group->weights().replica_hash(i),
                             "finalize: values of the replicated parameter '" + group->full_name(i) +
                                 "' (set the same on every rank, or ask for broadcast)");
      check_equal_parts(*group);
    }
}

// Whether ranks on one line of `axis` pass the same number. All ranks take part: communicators of lines carry memory of
// the device only.
bool FsdpContext::are_equal_on_lines(int axis, std::int64_t value) {
  struct Record {
    std::int64_t line, value;
  };
  Hash line;
  for (int other = 0; other < resources_->mesh->dims(); ++other)
    line.add(other == axis ? 0 : resources_->mesh->coordinate(other));
  const Record own{line.value(), value};
  const std::vector<Record> all = comm::gather(*resources_->communicators.all, own);
  return std::all_of(all.begin(), all.end(),
                     [&](const Record& other) { return other.line != own.line || other.value == own.value; });
}

// Of ranks that keep the same part, whose owners may have filled in anything. Lines may differ in what they find.
void FsdpContext::check_equal_parts(const ParameterGroup& group) {
  const layout::Placements& placements = group.weights().main().placements();
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    if (placements[axis].is_replicate()) {
      const bool is_equal = are_equal_on_lines(static_cast<int>(axis), group.weights().part_hash());
      comm::together(*resources_->communicators.all, [&] {
        expect(is_equal, Status::RANKS_DISAGREE, "finalize: values of the replicated parameter '", group.full_name(0),
               "' or another of its group, along axis '", resources_->mesh->axis_name(static_cast<int>(axis)),
               "' of the mesh (initialise them the same, or ask for broadcast) differ between ranks");
      });
    }
}

// --- queries

std::vector<buffer::NamedState> FsdpContext::named_states() const {
  require_finalized("named_states, which an optimizer needs");
  return states(false);
}

std::vector<buffer::NamedState> FsdpContext::all_states() const {
  require_finalized("all_states, which a checkpoint needs");
  return states(true);
}

std::vector<buffer::NamedState> FsdpContext::states(bool with_frozen) const {
  std::vector<buffer::NamedState> states;
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      if (with_frozen || group->is_trainable()) {
        states.push_back(group->named_state());
        for (const auto& [tied, existing] : module->ties_)
          if (const FsdpModule::Place place = module->find(tied); place.group == group.get())
            states.back().other_names[module->full_name() + "." + tied] = place.index;
      }
  return states;
}

MemoryReport FsdpContext::memory() const {
  const memory::Arena& arena = *resources_->arena;
  MemoryReport report;
  report.parameters = arena.usage(memory::Kind::parameters).in_use;
  report.gradients = arena.usage(memory::Kind::gradients).in_use;
  report.optimizer_state = arena.usage(memory::Kind::optimizer_state).in_use;
  report.transient = arena.usage(memory::Kind::transient).in_use;
  report.transient_peak = arena.usage(memory::Kind::transient).peak;
  report.reserved = arena.reserved();
  if (const comm::SharedMemory* shared = resources_->shared.get(); shared != nullptr) {
    const memory::Usage& gathered = shared->arena()->usage(memory::Kind::transient);
    report.transient += shared->part_of(gathered.in_use).size();
    report.transient_peak += shared->part_of(gathered.peak).size();
    report.reserved += shared->populated();
  }
  for (const auto& module : modules_)
    for (const auto& group : module->groups()) {
      report.parameters += group->weights().shared_bytes();
      report.num_elements += group->layout().payload();
    }
  return report;
}

MemoryReport FsdpContext::node_memory() {
  MemoryReport report = memory();
  constexpr std::array members{&MemoryReport::parameters, &MemoryReport::gradients,      &MemoryReport::optimizer_state,
                               &MemoryReport::transient,  &MemoryReport::transient_peak, &MemoryReport::reserved};
  std::array<std::int64_t, members.size()> sums;
  for (std::size_t i = 0; i < sums.size(); ++i)
    sums[i] = report.*members[i];
  status_.communicate([&] { comm::sum_by_key(*resources_->communicators.all, resources_->mesh->node(), sums); });
  for (std::size_t i = 0; i < sums.size(); ++i)
    report.*members[i] = sums[i];
  return report;
}

void FsdpContext::require_finalized(const std::string& operation) const {
  status_.require_usable();
  expect(is_finalized_, Status::INVALID_STATE, operation, ": finalize the context first");
}

} // namespace ostraka::fsdp
