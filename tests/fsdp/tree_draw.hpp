// SPDX-License-Identifier: Apache-2.0
// Draws a plan. All that depends on other choices (what may be skipped, left out, repeated) is decided here.
#pragma once

#include "tree_plan.hpp"

#include <utility>

namespace ostraka::fsdp::test::trees {

class Draw {
public:
  Draw(std::uint64_t seed, int ranks) : random_(seed) { plan_.seed = seed, plan_.ranks = ranks; }

  Plan plan() {
    draw_context();
    draw_tree();
    const int steps = random_.from(3, 5);
    for (int step = 0; step < steps; ++step)
      draw_step(step);
    return std::move(plan_);
  }

private:
  // --- what stays

  void draw_context() {
    draw_mesh();
    plan_.recipe = random_.below(plan_.mesh.size() > 1 ? 7 : 4);
    plan_.is_mean = random_.one_in(2);
    plan_.gradient_slots = random_.from(1, 4);
    plan_.is_unified = random_.one_in(2);
    plan_.prefetch = draw_budget();
    if (random_.one_in(5))
      plan_.compute = random_.one_of({Type::f64, Type::f32, Type::bf16});
    plan_.is_adamw = random_.one_in(3);
    plan_.is_fused = random_.one_in(3);
    plan_.rate = random_.one_of({0.125, 0.0625, 0.03125});
    plan_.momentum = random_.one_of({0.0, 0.5, 0.875});
    plan_.weight_decay = random_.one_of({0.0, 0.015625});
    storage_ = random_.below(4); // the last one: mixed
  }

  void draw_mesh() {
    const int ranks = plan_.ranks, dims = random_.from(1, ranks == 8 ? 3 : 2);
    plan_.mesh = {ranks};
    if (dims == 3)
      plan_.mesh = {2, 2, 2};
    if (dims == 2) {
      int outer = random_.from(1, ranks);
      while (ranks % outer != 0)
        --outer;
      plan_.mesh = {outer, ranks / outer};
    }
  }

  std::optional<std::int64_t> draw_budget() {
    const int kind = random_.below(4);
    if (kind == 0)
      return std::nullopt;
    return kind == 1 ? 0 : kind == 2 ? random_.from(1, 30) : 100000;
  }

  void draw_tree() {
    plan_.modules.resize(random_.from(1, 6));
    for (std::size_t m = 0; m < plan_.modules.size(); ++m)
      draw_module(static_cast<int>(m));
    const auto trains = [](const ModulePlan& module) { return module.is_trainable(); };
    if (std::none_of(plan_.modules.begin(), plan_.modules.end(), trains)) // an optimizer needs something
      plan_.modules.back().parameters.push_back({{"last"}, {3, 2}, draw_type(), true, 0});
  }

  void draw_module(int m) {
    ModulePlan& module = plan_.modules[m];
    const int candidate = m > 0 ? random_.below(m) : -1;
    if (candidate >= 0 && !random_.one_in(3) && plan_.modules[candidate].depth < 2) {
      module.parent = candidate;
      module.depth = plan_.modules[candidate].depth + 1;
    }
    module.allows_unused = random_.one_in(3);
    module.divisor = random_.one_of({1.0, 1.0, 1.0, 2.0, 0.5, 3.0});
    if (random_.one_in(3))
      module.prefetch = draw_budget();
    const Type type = draw_type();
    module.is_dense = random_.one_in(4) && is_exact(type);
    if (module.is_dense) {
      const std::int64_t in = random_.from(1, 5), out = random_.from(1, 5);
      module.parameters = {{{"weight"}, {out, in}, type, true, 0}, {{"bias"}, {out}, type, true, 0}};
      return;
    }
    for (int p = 0, count = random_.below(4); p < count; ++p)
      module.parameters.push_back(draw_parameter(p));
  }

  ParameterPlan draw_parameter(int p) {
    ParameterPlan parameter;
    parameter.names = {"w" + std::to_string(p)};
    if (random_.one_in(5))
      parameter.names.push_back("tied" + std::to_string(p));
    parameter.shape.resize(random_.below(4));
    for (std::int64_t& extent : parameter.shape)
      extent = random_.one_in(20) ? 0 : random_.from(1, 5);
    if (random_.one_in(10))
      parameter.shape = {random_.from(20, 90)};
    parameter.storage = draw_type();
    parameter.is_trainable = !random_.one_in(5);
    if (is_exact(parameter.storage) && random_.one_in(2))
      parameter.slope = random_.one_of({0.125, -0.125, 0.0625});
    return parameter;
  }

  Type draw_type() { return storage_ < 3 ? static_cast<Type>(storage_) : static_cast<Type>(random_.below(3)); }

  /// Whether weights are handed out as they are updated, so that gradients may depend on them.
  bool is_exact(Type storage) const {
    return storage != Type::bf16 && (!plan_.compute || *plan_.compute == Type::f64 || *plan_.compute == storage);
  }

  // --- what changes

  void draw_step(int step) {
    StepPlan plan;
    const bool is_reduced_at_once = plan_.recipe == 2 || plan_.recipe == 3; // zero_2, zero_3
    plan.adds_up = step > 0 && is_reduced_at_once && !plan_.is_fused && random_.one_in(5);
    plan.reads_whole = random_.one_in(3);
    if (random_.one_in(4))
      plan.look = Look{random_.below(static_cast<int>(plan_.modules.size())), random_.one_in(2)};
    const int count = random_.from(1, 4);
    for (int k = 0; k < count; ++k)
      plan.micro_batches.push_back(draw_micro_batch(k == 0));
    plan_.steps.push_back(std::move(plan));
  }

  MicroBatch draw_micro_batch(bool is_first) {
    const bool is_known = !random_.one_in(3);
    if (is_known && time_ == 0)
      draw_expected_order();
    else if (!is_known)
      draw_new_order();
    last_.time = time_++;
    draw_skips();
    last_.is_skipped.assign(plan_.ranks, 0);
    if (is_known && random_.one_in(3))
      for (char& skips : last_.is_skipped)
        skips = random_.one_in(2);
    last_.is_without_empty.assign(plan_.ranks, 0);
    for (char& without : last_.is_without_empty)
      without = random_.one_in(4);
    last_.drops = !is_first && random_.one_in(8);
    last_.evaluates = random_.one_in(is_first ? 4 : 12);
    last_.set = draw_set(is_first ? 3 : 12);
    last_.set_inside.reset();
    const auto& skips = last_.is_skipped;
    if (std::find(skips.begin(), skips.end(), 1) == skips.end())
      last_.set_inside = draw_set(6);
    if (last_.set_inside && plan_.modules[last_.set_inside->module].is_dense)
      last_.set_inside.reset();
    return last_;
  }

  std::optional<SetPlan> draw_set(int odds) {
    const int m = random_.below(static_cast<int>(plan_.modules.size()));
    const int parameters = static_cast<int>(plan_.modules[m].parameters.size());
    if (parameters == 0 || !random_.one_in(odds))
      return std::nullopt;
    return SetPlan{m, random_.below(parameters), random_.below(1000)};
  }

  /// Which uses a rank does not compute, and which gradients nobody asks for.
  void draw_skips() {
    std::vector<char> may_skip(last_.uses.size(), 1);
    const auto forbid = [&](const auto& self, const std::vector<Node>& nodes) -> void {
      for (const Node& node : nodes) {
        if (!node.inner.empty()) // their hooks surround others
          may_skip[node.use] = 0;
        self(self, node.inner);
      }
    };
    forbid(forbid, last_.forward);
    forbid(forbid, last_.backward);
    for (std::size_t u = 0; u < last_.uses.size(); ++u) {
      Use& use = last_.uses[u];
      const ModulePlan& module = plan_.modules[use.module];
      use.is_skipped.assign(plan_.ranks, 0);
      for (char& skipped : use.is_skipped)
        skipped = may_skip[u] != 0 && random_.one_in(6);
      use.is_left_out.assign(module.parameters.size(), 0);
      for (char& left_out : use.is_left_out)
        left_out = module.allows_unused && random_.one_in(4);
    }
  }

  /// As a tree is expected to run before anything is recorded: every module once.
  void draw_expected_order() {
    last_.uses.clear();
    for (int m = 0; m < static_cast<int>(plan_.modules.size()); ++m)
      last_.uses.push_back({m, true, {}, {}});
    last_.forward = children_of(-1);
    last_.backward = mirrored(last_.forward);
    last_.begins_backward = random_.one_in(2);
  }

  std::vector<Node> children_of(int parent) const {
    std::vector<Node> nodes;
    for (int m = 0; m < static_cast<int>(plan_.modules.size()); ++m)
      if (plan_.modules[m].parent == parent)
        nodes.push_back({m, children_of(m)});
    return nodes;
  }

  void draw_new_order() {
    draw_uses();
    std::vector<int> all, back;
    for (int u = 0; u < static_cast<int>(last_.uses.size()); ++u) {
      all.push_back(u);
      if (last_.uses[u].goes_back)
        back.push_back(u);
    }
    last_.forward = draw_nesting(all);
    last_.backward = random_.one_in(3) ? draw_nesting(back) : mirrored(last_.forward);
    const bool recomputes = random_.one_in(2);
    if (recomputes)
      draw_recomputations(last_.backward);
    last_.begins_backward = recomputes || random_.one_in(2);
  }

  void draw_uses() {
    last_.uses.clear();
    bool trains = false;
    const auto add = [&](int m, int count, bool goes_back) {
      for (int k = 0; k < count; ++k)
        last_.uses.push_back({m, goes_back, {}, {}});
      trains = trains || (count > 0 && goes_back && !plan_.modules[m].parameters.empty());
    };
    for (int m = 0; m < static_cast<int>(plan_.modules.size()); ++m) {
      const ModulePlan& module = plan_.modules[m];
      const bool must = module.is_trainable() && !module.allows_unused;
      add(m, must ? random_.one_of({1, 1, 2, 3}) : random_.below(4), must || !random_.one_in(4));
    }
    for (int m = 0; m < static_cast<int>(plan_.modules.size()) && !trains; ++m) // something has to go backward
      if (plan_.modules[m].is_trainable()) {
        std::erase_if(last_.uses, [&](const Use& use) { return use.module == m; });
        add(m, 1, true);
      }
  }

  /// In random order; uses of outer modules may surround those of inner ones.
  std::vector<Node> draw_nesting(std::vector<int> uses) {
    for (int i = static_cast<int>(uses.size()) - 1; i > 0; --i)
      std::swap(uses[i], uses[random_.below(i + 1)]);
    const bool nests = !random_.one_in(4);
    std::vector<Node> roots;
    for (const int use : uses) {
      std::vector<std::vector<Node>*> places{&roots};
      if (nests)
        collect_places(last_.uses[use].module, roots, places);
      const int last = static_cast<int>(places.size()) - 1;
      std::vector<Node>& place = *places[last > 0 && !random_.one_in(4) ? random_.from(1, last) : 0];
      place.insert(place.begin() + random_.below(static_cast<int>(place.size()) + 1), Node{use});
    }
    return roots;
  }

  void collect_places(int module, std::vector<Node>& nodes, std::vector<std::vector<Node>*>& places) {
    for (Node& node : nodes)
      if (is_inside(module, last_.uses[node.use].module)) {
        places.push_back(&node.inner);
        collect_places(module, node.inner, places);
      }
  }

  bool is_inside(int module, int outer) const {
    for (int m = plan_.modules[module].parent; m >= 0; m = plan_.modules[m].parent)
      if (m == outer)
        return true;
    return false;
  }

  /// Backwards, without uses that are forward passes alone.
  std::vector<Node> mirrored(const std::vector<Node>& nodes) const {
    std::vector<Node> result;
    for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
      std::vector<Node> inner = mirrored(node->inner);
      if (last_.uses[node->use].goes_back)
        result.push_back({node->use, std::move(inner)});
      else
        result.insert(result.end(), inner.begin(), inner.end());
    }
    return result;
  }

  void draw_recomputations(std::vector<Node>& nodes) {
    using enum Recompute;
    for (Node& node : nodes) {
      node.recompute = random_.one_of({none, none, none, none, before, before_with_inner, inside, early});
      draw_recomputations(node.inner);
    }
  }

  Random random_;
  Plan plan_;
  int storage_ = 0;
  int time_ = 0;
  MicroBatch last_; ///< the order that is known
};

/// Equal on all ranks.
inline Plan draw_plan(std::uint64_t seed, int ranks) { return Draw(seed, ranks).plan(); }

} // namespace ostraka::fsdp::test::trees
