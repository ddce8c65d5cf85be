// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/hash.hpp>
#include <ostraka/comm/agreement.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/runtime/lifetime.hpp>

#include <algorithm>
#include <array>
#include <numeric>

namespace ostraka::fsdp {

namespace {

void check_config(const mesh::DeviceMesh& mesh, const ContextConfig& config) {
  expect(config.gradient_slots >= 1, Status::INVALID_ARGUMENT, "context: expected gradient_slots >= 1, found ",
         config.gradient_slots);
  expect(config.reduction == layout::ReduceOp::sum || config.reduction == layout::ReduceOp::mean,
         Status::INVALID_ARGUMENT, "context: expected the reduction sum (0) or mean (1), found ",
         static_cast<std::int32_t>(config.reduction));
  placements_of(config, mesh.dims());
  validate(config, "context");
}

std::int64_t hash_of(const ContextConfig& config) {
  const auto number = [](std::optional<DType> dtype) { return dtype ? static_cast<std::int32_t>(*dtype) : -1; };
  Hash hash;
  if (config.placements)
    for (const auto* list :
         {&config.placements->parameter, &config.placements->gradient, &config.placements->optimizer})
      for (const layout::Placement& placement : *list)
        hash.add(placement.kind);
  return hash.add(config.recipe)
      .add(config.reduction)
      .add(config.gradient_slots)
      .add(config.broadcast)
      .add(number(config.main_dtype))
      .add(number(config.compute_dtype))
      .add(number(config.reduction_dtype))
      .value();
}

// Of the whole weights: the node's where they rest, else of the ranks of a node that gather together, those on one line
// of the axis that shards them. Ranks that gather over several axes one after the other have no memory in common.
std::shared_ptr<comm::SharedMemory> make_shared_memory(const mesh::DeviceMesh& mesh,
                                                       const layout::Placements& parameter, bool rests_whole) {
  if (rests_whole)
    return mesh.make_shared_memory();
  const bool has_one_axis =
      std::count_if(parameter.begin(), parameter.end(), [](const auto& p) { return p.is_shard(); }) == 1;
  return mesh.shares_nodes() && has_one_axis ? mesh.make_shared_memory(mesh.dims() - 1) : nullptr;
}

} // namespace

std::shared_ptr<FsdpContext> FsdpContext::create(buffer::MeshPtr mesh, ContextConfig config) {
  runtime::require_initialized("context");
  expect(mesh != nullptr, Status::INVALID_ARGUMENT, "context: the mesh is null");
  comm::Communicator& all = *mesh->communicators().all;
  comm::together(all, [&] { check_config(*mesh, config); });
  comm::agree_on_value(all, hash_of(config), "context: configuration");
  return std::shared_ptr<FsdpContext>(new FsdpContext(std::move(mesh), config));
}

FsdpContext::FsdpContext(buffer::MeshPtr mesh, ContextConfig config) {
  mesh::Communicators communicators = mesh->make_communicators("fsdp context");
  RecipePlacements placements = placements_of(config, mesh->dims());
  const bool rests_whole = mesh->shares_nodes() && mesh->nodes_hold_all_parts(placements.parameter);
  if (rests_whole) // each byte has one writer: what several ranks would update is cut among them
    placements.optimizer = layout::Placements(mesh->dims(), layout::shard());
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<comm::SharedMemory> shared;
  comm::together(*communicators.all, [&] { // one node may have too little
    arena = mesh->make_arena();
    shared = make_shared_memory(*mesh, placements.parameter, rests_whole);
  });
  resources_ = std::make_shared<Resources>(
      Resources{std::move(mesh), config, placements, std::move(communicators), arena, std::move(shared), rests_whole,
                runtime::make_host_compute_stream(), runtime::make_host_queue("gather"),
                runtime::make_host_queue("reduce"), GradientSlots(arena, config.gradient_slots)});
}

FsdpContext::~FsdpContext() {
  try {
    if (terminal_cause_.empty()) {
      for (auto& module : modules_)
        module->reshard_groups(); // waits for gathers in flight
      resources_->compute->wait(resources_->reduce->record());
    }
  } catch (const std::exception&) { // the communicators keep what is in flight; there is nobody left to tell
  }
  resources_->is_open = false;
  resources_->communicators = {};
}

FsdpModule& FsdpContext::add_module(std::string name) {
  expect(!is_finalized_, Status::INVALID_STATE, "add_module('", name, "'): the context is finalised");
  expect(!name.empty(), Status::INVALID_ARGUMENT, "add_module: the name is empty");
  for (const auto& module : modules_)
    expect(module->name() != name, Status::INVALID_ARGUMENT, "add_module: '", name, "' exists already");
  modules_.push_back(std::make_unique<FsdpModule>(*this, std::move(name), static_cast<int>(modules_.size())));
  return *modules_.back();
}

void FsdpContext::finalize() {
  communicate([&] {
    comm::together(*resources_->communicators.all, [&] {
      expect(!is_finalized_, Status::INVALID_STATE, "finalize: the context is finalised already");
      for (const auto& module : modules_)
        expect(module->is_built(), Status::INVALID_STATE, "finalize: module '", module->name(), "' is not built");
    });
    check_modules_agree();
    check_or_broadcast_replicas();
  });
  communicate([&] {
    comm::together(*resources_->communicators.all, [&] {
      reserve_slots();
      reserve_gathers();
    });
  });
  std::vector<int> order(modules_.size());
  std::iota(order.begin(), order.end(), 0);
  forward_order_.expect_first(order);
  std::reverse(order.begin(), order.end());
  backward_order_.expect_first(order);
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      group->weights().end_setup();
  if (resources_->shared != nullptr)
    resources_->shared->start();
  is_finalized_ = true;
}

// A module and the one gathered ahead, so that steps take nothing from the system.
void FsdpContext::reserve_gathers() {
  const auto for_groups = [](const FsdpModule& module, auto&& body) {
    for (const auto& group : module.groups())
      body(group->weights());
  };
  for (std::size_t m = 0; m < modules_.size(); ++m) {
    for_groups(*modules_[m], [](Weights& weights) { weights.reserve(); });
    if (m > 0)
      for_groups(*modules_[m - 1], [](Weights& weights) { weights.give_back(); });
  }
  if (!modules_.empty())
    for_groups(*modules_.back(), [](Weights& weights) { weights.give_back(); });
}

void FsdpContext::reserve_slots() {
  std::int64_t bytes = 0;
  int groups = 0;
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      if (group->slot_bytes() > 0) {
        bytes = std::max(bytes, group->slot_bytes());
        ++groups;
      }
  resources_->slots.reserve(bytes, groups);
}

void FsdpContext::check_modules_agree() {
  Hash names;
  for (const auto& module : modules_)
    names.add(module->name());
  comm::agree_on_value(*resources_->communicators.all, names.value(), "finalize: names and order of the modules");
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
    }
}

// --- the step

void FsdpContext::finish_backward() {
  require_finalized("finish_backward");
  expect(!is_in_inference_, Status::INVALID_STATE,
         "finish_backward: not allowed between begin_inference and end_inference");
  communicate([&] {
    for (const auto& module : modules_)
      if (module->phase() != FsdpModule::Phase::resting)
        record_failure(Error(Status::INVALID_STATE, "finish_backward: module '" + module->name() +
                                                        "' is still in its " + fsdp::name(module->phase()) + " phase"));
    is_draining_ = true;
    attempt([&] { drain_step(); });
    attempt([&] { resources_->compute->wait(resources_->reduce->record()); }); // peers read the slots until then
    is_draining_ = false;
    std::optional<Error> failure = std::move(step_failure_);
    step_failure_.reset();
    try {
      comm::agree_on_status(*resources_->communicators.all, failure);
    } catch (const Error& error) {
      if (!is_terminal(error)) {
        end_pass(true);
        align_clocks();
      }
      throw;
    }
    end_pass(false);
  });
}

// A rank that failed may have counted fewer uses of weights than its peers.
void FsdpContext::align_clocks() {
  if (!resources_->mesh->shares_nodes())
    return;
  comm::SharedMemory* shared = resources_->shared.get();
  const std::int64_t latest = comm::largest(*resources_->communicators.all, shared != nullptr ? shared->now() : 0);
  if (shared != nullptr)
    shared->advance_to(latest);
}

// Does what this rank still owes the others: hooks without arithmetic after a failure, reductions of modules whose uses
// did not all go backward.
void FsdpContext::drain_step() {
  if (step_failure_) {
    for (const auto& module : modules_)
      for (const auto& group : module->groups())
        group->zero_grad();        // nothing of this step counts, and nothing may refuse the hooks below
    while (!open_modules_.empty()) // from the inside out, as on the other ranks
      if (open_modules_.back()->phase() == FsdpModule::Phase::forward)
        open_modules_.back()->post_forward();
      else
        open_modules_.back()->post_backward();
    if (!backward_order_.has_started())
      while (const auto next = forward_order_.next()) {
        modules_[*next]->pre_forward();
        modules_[*next]->post_forward();
      }
    while (const auto next = backward_order_.next()) {
      if (modules_[*next]->backward_uses_ == modules_[*next]->forward_uses_)
        break; // the recorded order does not fit this step
      modules_[*next]->pre_backward();
      modules_[*next]->post_backward();
    }
  }
  for (const auto& module : modules_)
    if (module->backward_uses_ > 0 && module->backward_uses_ < module->forward_uses_) {
      record_failure(Error(Status::INVALID_STATE, "finish_backward: module '" + module->name() + "' went forward " +
                                                      std::to_string(module->forward_uses_) + " times but backward " +
                                                      std::to_string(module->backward_uses_) +
                                                      " times; evaluate between begin_inference and end_inference"));
      module->complete_gradients();
    }
}

void FsdpContext::end_pass(bool failed) {
  open_modules_.clear();
  for (const auto& module : modules_)
    module->finish_microbatch();
  resources_->slots.release_storage();
  if (failed) {
    zero_grad();
    forward_order_.cancel();
    backward_order_.cancel();
    return;
  }
  if (backward_order_.has_started())
    forward_order_.finish();
  else
    forward_order_.cancel(); // any number of forward passes alone says nothing about the next step
  backward_order_.finish();
}

void FsdpContext::end_for_good(const Error& error) {
  terminal_cause_ = error.what();
  if (resources_->shared != nullptr && error.status() != Status::TIME_OUT) // peers run into that by themselves
    resources_->shared->tell_peers(terminal_cause_);
}

void FsdpContext::fail_step(const std::string& message) {
  require_finalized("fail_step");
  record_failure(Error(Status::USER_FAILURE, message.empty() ? "the caller reported a failure" : message));
}

void FsdpContext::record_failure(const Error& error) {
  if (!step_failure_) // the first cause is the one to report
    step_failure_ = error;
}

void FsdpContext::prefetch(Order& order) {
  if (const auto next = order.next())
    modules_[*next]->unshard_groups();
}

void FsdpContext::set_last_microbatch(bool is_last) {
  require_finalized("set_last_microbatch");
  is_last_microbatch_ = is_last;
}

void FsdpContext::zero_grad() {
  require_finalized("zero_grad");
  for (const auto& module : modules_)
    expect(module->backward_uses_ == 0 && module->phase() != FsdpModule::Phase::backward, Status::INVALID_STATE,
           "zero_grad: module '", module->name(), "' is in a backward pass; call finish_backward first");
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      group->zero_grad();
}

// --- inference

void FsdpContext::begin_inference() {
  require_finalized("begin_inference");
  expect(!is_in_inference_, Status::INVALID_STATE, "begin_inference: it was called already");
  for (const auto& module : modules_)
    module->require_phase(FsdpModule::Phase::resting, "begin_inference");
  communicate([&] {
    for (const auto& module : modules_)
      module->unshard_groups();
    for (const auto& module : modules_)
      module->wait_unsharded();
  });
  is_in_inference_ = true;
}

void FsdpContext::end_inference() {
  expect(is_in_inference_, Status::INVALID_STATE, "end_inference: begin_inference was not called");
  is_in_inference_ = false;
  communicate([&] {
    for (const auto& module : modules_) {
      module->phase_ = FsdpModule::Phase::resting; // a pass that was broken off is over
      open_modules_.clear();
      if (!module->is_pinned_)
        module->reshard_groups();
    }
  });
}

// --- queries

std::vector<buffer::NamedState> FsdpContext::named_states() const {
  require_finalized("named_states, which an optimizer needs");
  std::vector<buffer::NamedState> states;
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      if (group->is_trainable())
        states.push_back(group->named_state());
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
  communicate([&] { comm::sum_by_key(*resources_->communicators.all, resources_->mesh->node(), sums); });
  for (std::size_t i = 0; i < sums.size(); ++i)
    report.*members[i] = sums[i];
  return report;
}

void FsdpContext::require_finalized(const std::string& operation) const {
  require_usable();
  expect(is_finalized_, Status::INVALID_STATE, operation, ": finalize the context first");
}

void FsdpContext::require_usable() const {
  expect(terminal_cause_.empty(), Status::FAILED,
         "context: it failed earlier and can only be destroyed: ", terminal_cause_);
}

} // namespace ostraka::fsdp
