// SPDX-License-Identifier: Apache-2.0
// A context without memory and messages: set-up and steps of one rank.
#pragma once

#include <ostraka/fsdp/walk.hpp>
#include <ostraka/plan/impl/group.hpp>

#include <memory>
#include <vector>

namespace ostraka::plan::impl {

/// What is the same on all ranks: modules, and the plans of their groups.
struct Model {
  std::vector<Module> modules;
  fsdp::ModuleTree tree;
  std::vector<std::vector<fsdp::GroupPlan>> groups; ///< [unit]
  std::int64_t elements = 0;
  std::int64_t padding = 0;

  Model(const Request& request, const fsdp::RecipePlacements& placements);
};

/// Buffers of state of each parameter: "exp_avg" and "exp_avg_sq", or "momentum_buffer".
inline int num_states(Optimizer optimizer) {
  return optimizer == Optimizer::adamw ? 2 : optimizer == Optimizer::sgd_momentum ? 1 : 0;
}

/// As FsdpModule, where nothing fails.
class HookedModule {
public:
  HookedModule(int id, const Unit& unit, const bool& is_last_microbatch)
      : id_(id), unit_(unit), is_last_microbatch_(is_last_microbatch) {}

  void add(std::unique_ptr<Group> group) { groups_.push_back(std::move(group)); }
  fsdp::ModuleNeeds needs(const fsdp::ContextConfig& config) const;
  const Unit& unit() const { return unit_; }
  /// A context contributes zeros for what was left out.
  bool is_left_out() const { return (is_trainable() && uses_.backward == 0) || uses_.is_partly_owed(); }

  // for the walk
  int id() const { return id_; }
  fsdp::Uses& uses() { return uses_; }
  const std::vector<std::unique_ptr<Group>>& groups() const { return groups_; }
  void unshard_groups();
  void wait_unsharded();
  void reshard_groups();
  void complete_gradients(const char* operation);
  bool is_updated() const;

private:
  bool is_trainable() const;

  int id_;
  const Unit& unit_;
  const bool& is_last_microbatch_; ///< of the run
  std::vector<std::unique_ptr<Group>> groups_;
  fsdp::Uses uses_;
};

class Run {
public:
  /// Sets up; all references are kept.
  Run(const Request& request, const Model& model, const Shape& shape, Memory& memory, Recorder& recorder);

  /// All micro-batches, and the optimizer's step.
  void step();

private:
  void build(const Shape& shape);
  void micro_batch(bool is_last);
  void run(fsdp::Event event);
  void finish_backward();
  void update();

  const Request& request_;
  const Model& model_;
  Memory& memory_;
  Recorder& recorder_;
  std::vector<std::unique_ptr<HookedModule>> modules_;
  std::vector<fsdp::Event> forward_events_, backward_events_;
  fsdp::Walk walk_;
  bool is_last_microbatch_ = true;
  bool has_state_ = false;
};

} // namespace ostraka::plan::impl
