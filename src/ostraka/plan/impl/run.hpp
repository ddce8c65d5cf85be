// SPDX-License-Identifier: Apache-2.0
// A context without memory and messages: set-up and steps of one rank.
#pragma once

#include <ostraka/fsdp/module_tree.hpp>
#include <ostraka/fsdp/reservation.hpp>
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

class Run {
public:
  /// Sets up; all references are kept.
  Run(const Request& request, const Model& model, const Shape& shape, Memory& memory, Recorder& recorder);

  /// All micro-batches, and the optimizer's step.
  void step();

private:
  enum class Phase { resting, forward, backward };
  struct Hooked {
    std::vector<std::unique_ptr<Group>> groups;
    fsdp::ModuleNeeds needs;
    const Unit* unit = nullptr;
    Phase phase = Phase::resting;
    bool is_recomputing = false;
    bool is_trainable = false;
    int forward_uses = 0;
    int backward_uses = 0;
  };

  void build(const Shape& shape);
  void finalize();
  void micro_batch(bool is_last);
  void run(fsdp::Event event);
  void pre_forward(int module);
  void post_forward(int module);
  void pre_backward(int module);
  void post_backward(int module);
  void recompute(int module);
  void finish_backward();
  void update();

  Hooked& at(int module) { return modules_[static_cast<std::size_t>(module)]; }
  void record(int module, fsdp::Hook hook);
  void prefetch(std::span<const int> upcoming, const Hooked& module);
  void ask_for(const Hooked& module);
  void unshard(Hooked& module);
  void reshard(Hooked& module);
  void reduce(Hooked& module);
  bool is_updated(const Hooked& module) const;

  const Request& request_;
  const Model& model_;
  Memory& memory_;
  Recorder& recorder_;
  std::vector<Hooked> modules_;
  std::vector<std::int64_t> elements_;
  std::vector<fsdp::Event> forward_events_, backward_events_;
  fsdp::Pass forward_{fsdp::Hook::pre_forward};
  fsdp::Pass backward_{fsdp::Hook::pre_backward};
  bool is_backward_ = false;
  bool is_last_microbatch_ = true;
  bool has_state_ = false;
};

} // namespace ostraka::plan::impl
