// SPDX-License-Identifier: Apache-2.0
// The walk of fsdp/walk.hpp as contexts make it (fsdp_hooks.cpp, fsdp_step.cpp), where nothing fails.
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

// --- modules

fsdp::ModuleNeeds HookedModule::needs(const fsdp::ContextConfig& config) const {
  fsdp::ModuleNeeds needs;
  needs.prefetch = unit_.prefetch ? unit_.prefetch->elements : config.prefetch;
  for (const auto& group : groups_)
    needs.add(group->plan());
  return needs;
}

void HookedModule::unshard_groups() {
  fsdp::unshard_together(groups_, [](auto&& ask) { ask(); });
}

void HookedModule::wait_unsharded() {
  for (const auto& group : groups_)
    group->wait_unsharded();
}

void HookedModule::reshard_groups() {
  for (const auto& group : groups_)
    group->reshard();
}

void HookedModule::complete_gradients(const char*) {
  std::vector<Group*> reduced;
  for (const auto& group : groups_)
    if (group->plan().is_trainable && group->begin_reduction(is_last_microbatch_))
      reduced.push_back(group.get());
  fsdp::reduce_together(reduced, [](int, auto&& queue) { queue(); });
}

bool HookedModule::is_updated() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->is_updated(); });
}

bool HookedModule::is_trainable() const {
  return std::any_of(groups_.begin(), groups_.end(), [](const auto& group) { return group->plan().is_trainable; });
}

// --- runs

Run::Run(const Request& request, const Model& model, const Shape& shape, Memory& memory, Recorder& recorder)
    : request_(request), model_(model), memory_(memory), recorder_(recorder) {
  build(shape);
  forward_events_ = request.forward.empty() ? model.tree.forward() : request.forward;
  backward_events_ = request.backward.empty() ? model.tree.backward() : request.backward;
}

void Run::build(const Shape& shape) {
  std::vector<fsdp::ModuleNeeds> needs;
  for (const Module& of : model_.modules) {
    const Unit& unit = request_.units[static_cast<std::size_t>(of.unit)];
    const int id = static_cast<int>(modules_.size());
    auto module = std::make_unique<HookedModule>(id, unit, is_last_microbatch_);
    for (const fsdp::GroupPlan& plan : model_.groups[static_cast<std::size_t>(of.unit)]) {
      const Place place{id, static_cast<int>(module->groups().size())};
      module->add(std::make_unique<Group>(plan, shape, memory_, recorder_, place, unit.gradient_divisor));
    }
    needs.push_back(module->needs(request_.config));
    modules_.push_back(std::move(module));
  }
  walk_.expect_first(model_.tree, std::move(needs));
  walk_.reserve(model_.tree, modules_, memory_);
}

void Run::step() {
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
      group->zero_grad();
  for (int k = 0; k < request_.micro_batches; ++k)
    micro_batch(k == request_.micro_batches - 1);
  update();
}

void Run::micro_batch(bool is_last) {
  is_last_microbatch_ = is_last;
  for (const Event& event : forward_events_)
    run(event);
  walk_.begin_backward();
  for (const Event& event : backward_events_)
    run(event);
  finish_backward();
}

// A hook, and the arithmetic behind it.
void Run::run(Event event) {
  HookedModule& module = *modules_[static_cast<std::size_t>(event.module)];
  const Place place{event.module, -1};
  switch (event.hook) {
  case Hook::pre_forward:
    if (walk_.is_backward())
      walk_.begin_recomputation(module);
    else
      walk_.begin(modules_, event);
    return recorder_.compute(place, "forward", module.unit().forward_s);
  case Hook::post_forward:
    return walk_.post_forward(module);
  case Hook::pre_backward:
    walk_.begin(modules_, event);
    for (const auto& group : module.groups())
      if (group->plan().is_trainable)
        group->bind();
    return recorder_.compute(place, "backward", module.unit().backward_s);
  default:
    return walk_.post_backward(module);
  }
}

void Run::finish_backward() {
  for (const auto& module : modules_)
    if (module->is_left_out())
      module->complete_gradients("finish_backward");
  recorder_.wait(Queue::compute, recorder_.now(Queue::reduce));
  recorder_.communicate(Queue::compute, {}, Collective::agreement, -1, agreement_values, DType::i64);
  walk_.finish(modules_, false);
  for (Slot& slot : memory_.slots)
    slot.piece.give_back();
}

// As optim::Optimizer::step.
void Run::update() {
  if (request_.optimizer == Optimizer::none)
    return;
  std::vector<Group*> states;
  for (const auto& module : modules_)
    for (const auto& group : module->groups())
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

} // namespace ostraka::plan::impl
