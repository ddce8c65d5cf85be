// SPDX-License-Identifier: Apache-2.0
// The hooks of fsdp/fsdp_hooks.cpp and fsdp/fsdp_step.cpp as they run where nothing fails.
#include <ostraka/plan/impl/run.hpp>

#include <algorithm>

namespace ostraka::plan::impl {

using fsdp::Event;
using fsdp::Hook;

namespace {

constexpr std::int64_t agreement_values = 3; // comm::agree_on_status with a value

} // namespace

Model::Model(const Request& request, const fsdp::RecipePlacements& placements)
    : modules(plan::modules(request.units)), groups(request.units.size()) {
  const int ranks = narrow(request.ranks(), "ranks");
  for (std::size_t unit = 0; unit < request.units.size(); ++unit) {
    const Unit& of = request.units[unit];
    for (const auto& specs : fsdp::grouped(of.parameters)) {
      groups[unit].push_back(
          fsdp::plan_group(specs, fsdp::precision_of(of.precision, request.config), placements, ranks, of.name));
      const layout::GlobalLayout& layout = *groups[unit].back().layout;
      elements += of.count * layout.payload();
      padding += of.count * layout.padding();
    }
  }
  for (const Module& module : modules) {
    const std::size_t dot = module.parent ? modules[static_cast<std::size_t>(*module.parent)].name.size() + 1 : 0;
    tree.add(module.name.substr(dot), module.parent);
  }
}

Run::Run(const Request& request, const Model& model, const Shape& shape, Memory& memory, Recorder& recorder)
    : request_(request), model_(model), memory_(memory), recorder_(recorder) {
  build(shape);
  finalize();
  forward_events_ = request.forward.empty() ? model.tree.forward() : request.forward;
  backward_events_ = request.backward.empty() ? model.tree.backward() : request.backward;
}

void Run::build(const Shape& shape) {
  for (std::size_t m = 0; m < model_.modules.size(); ++m) {
    const auto unit = static_cast<std::size_t>(model_.modules[m].unit);
    Hooked module;
    module.unit = &request_.units[unit];
    module.needs.prefetch = module.unit->prefetch ? module.unit->prefetch->elements : request_.config.prefetch;
    for (const fsdp::GroupPlan& plan : model_.groups[unit]) {
      const Place place{static_cast<int>(m), static_cast<int>(module.groups.size())};
      module.groups.push_back(
          std::make_unique<Group>(plan, shape, memory_, recorder_, place, module.unit->gradient_divisor));
      module.is_trainable = module.is_trainable || plan.is_trainable;
      module.needs.add(plan);
    }
    elements_.push_back(module.needs.elements);
    modules_.push_back(std::move(module));
  }
}

// As FsdpContext::finalize.
void Run::finalize() {
  const auto with_parameters = [&](std::vector<Event> events) {
    std::erase_if(events, [&](const Event& event) { return at(event.module).groups.empty(); });
    return events;
  };
  const std::vector<Event> forward = model_.tree.forward(), backward = model_.tree.backward();
  forward_.expect_first(with_parameters(forward));
  backward_.expect_first(with_parameters(backward));
  std::vector<fsdp::ModuleNeeds> needs;
  for (const Hooked& module : modules_)
    needs.push_back(module.needs);
  const fsdp::SlotNeeds slots = fsdp::slot_needs(backward, needs);
  std::vector<Piece> first_use; // given back at once
  const int count = memory_.ring.reserve(slots.bytes, slots.needed, slots.at_once);
  for (int slot = 0; slot < count; ++slot)
    first_use.emplace_back(memory_.arena, memory_.ring.bytes(), memory::Kind::transient, memory_.slot_meter);
  for (Piece& piece : first_use)
    piece.give_back();
  const auto for_groups = [&](int module, auto&& body) {
    for (const auto& group : at(module).groups)
      body(*group);
  };
  fsdp::walk_gathers(
      forward, backward, needs, [&](int module) { for_groups(module, [](Group& group) { group.reserve(); }); },
      [&](int module) { for_groups(module, [](Group& group) { group.give_back(); }); });
}

void Run::step() {
  for (const Hooked& module : modules_)
    for (const auto& group : module.groups)
      group->zero_grad();
  for (int k = 0; k < request_.micro_batches; ++k)
    micro_batch(k == request_.micro_batches - 1);
  update();
}

void Run::micro_batch(bool is_last) {
  is_last_microbatch_ = is_last;
  for (const Event& event : forward_events_)
    run(event);
  is_backward_ = true;
  for (const Event& event : backward_events_)
    run(event);
  finish_backward();
}

void Run::run(Event event) {
  switch (event.hook) {
  case Hook::pre_forward:
    return is_backward_ ? recompute(event.module) : pre_forward(event.module);
  case Hook::post_forward:
    return post_forward(event.module);
  case Hook::pre_backward:
    return pre_backward(event.module);
  default:
    return post_backward(event.module);
  }
}

void Run::pre_forward(int m) {
  Hooked& module = at(m);
  unshard(module);
  record(m, Hook::pre_forward);
  if (!module.groups.empty())
    prefetch(forward_.gathers().upcoming(), module);
  ++module.forward_uses;
  module.phase = Phase::forward;
  recorder_.compute({m, -1}, "forward", module.unit->forward_s);
}

void Run::post_forward(int m) {
  Hooked& module = at(m);
  const bool was_recomputing = module.is_recomputing;
  module.is_recomputing = false;
  if (was_recomputing && module.phase == Phase::backward)
    return;
  module.phase = Phase::resting;
  record(m, Hook::post_forward);
  if (!was_recomputing)
    reshard(module);
}

// The weights stay for the backward pass that follows, and nothing is gathered ahead.
void Run::recompute(int m) {
  Hooked& module = at(m);
  if (module.phase != Phase::backward) {
    unshard(module);
    record(m, Hook::pre_forward);
    module.phase = Phase::forward;
  }
  module.is_recomputing = true;
  recorder_.compute({m, -1}, "forward", module.unit->forward_s);
}

void Run::pre_backward(int m) {
  Hooked& module = at(m);
  unshard(module);
  record(m, Hook::pre_backward);
  if (!module.groups.empty())
    prefetch(backward_.gathers().upcoming(), module);
  module.phase = Phase::backward;
  for (const auto& group : module.groups)
    if (group->plan().is_trainable)
      group->bind();
  recorder_.compute({m, -1}, "backward", module.unit->backward_s);
}

void Run::post_backward(int m) {
  Hooked& module = at(m);
  module.phase = Phase::resting;
  ++module.backward_uses;
  record(m, Hook::post_backward);
  reshard(module);
  if (module.backward_uses >= module.forward_uses)
    reduce(module);
}

void Run::finish_backward() {
  for (Hooked& module : modules_) { // what a context contributes for modules that were left out
    const bool is_unused = module.is_trainable && module.backward_uses == 0;
    const bool is_pending = module.backward_uses > 0 && module.backward_uses < module.forward_uses;
    if (is_unused || is_pending)
      reduce(module);
  }
  recorder_.wait(Queue::compute, recorder_.now(Queue::reduce));
  recorder_.communicate(Queue::compute, {}, Collective::agreement, -1, agreement_values, DType::i64);
  for (Hooked& module : modules_) {
    module.forward_uses = module.backward_uses = 0;
    reshard(module); // gathered ahead, but not used
  }
  for (Slot& slot : memory_.slots)
    slot.piece.give_back();
  is_backward_ = false;
  forward_.finish();
  backward_.finish();
}

// As optim::Optimizer::step.
void Run::update() {
  if (request_.optimizer == Optimizer::none)
    return;
  std::vector<Group*> states;
  for (const Hooked& module : modules_)
    for (const auto& group : module.groups)
      if (group->plan().is_trainable)
        states.push_back(group.get());
  if (!has_state_)
    for (Group* state : states)
      state->make_state(num_states(request_.optimizer));
  has_state_ = true;
  for (Group* state : states)
    state->begin_update();
  for (Group* state : states)
    state->update();
}

// --- inside

void Run::record(int module, Hook hook) {
  if (!at(module).groups.empty())
    (is_backward_ ? backward_ : forward_).visit({module, hook});
}

void Run::prefetch(std::span<const int> upcoming, const Hooked& module) {
  const int ahead = fsdp::modules_ahead(upcoming, elements_, module.needs.prefetch);
  for (const int next : upcoming.first(static_cast<std::size_t>(ahead)))
    if (!is_updated(at(next))) // it ran earlier than predicted, and its weights are changing
      ask_for(at(next));
}

// As FsdpModule::unshard_groups.
void Run::ask_for(const Hooked& module) {
  for (const auto& group : module.groups)
    group->unshard();
  for (const auto& group : module.groups)
    group->complete_unshard();
}

void Run::unshard(Hooked& module) {
  ask_for(module);
  for (const auto& group : module.groups)
    group->wait_unsharded();
}

void Run::reshard(Hooked& module) {
  for (const auto& group : module.groups)
    group->reshard();
}

// As FsdpModule::complete_gradients and reduce.
void Run::reduce(Hooked& module) {
  std::vector<Group*> groups;
  for (const auto& group : module.groups)
    if (group->plan().is_trainable && group->begin_reduction(is_last_microbatch_))
      groups.push_back(group.get());
  for (Group* group : groups)
    group->reduce_contribution();
  for (Group* group : groups)
    group->add_contribution();
  for (Group* group : groups)
    group->reduce_at_the_end();
  for (Group* group : groups)
    group->end_reduction();
}

bool Run::is_updated(const Hooked& module) const {
  return std::any_of(module.groups.begin(), module.groups.end(), [](const auto& group) { return group->is_updated(); });
}

} // namespace ostraka::plan::impl
