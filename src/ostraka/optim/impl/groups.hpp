// SPDX-License-Identifier: Apache-2.0
// Hyperparameters per tensor, and the runs of this rank's elements that have the same ones.
#pragma once

#include <ostraka/buffer/named_state.hpp>
#include <ostraka/optim/groups.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ostraka::optim {

struct Hyperparameters {
  double learning_rate_factor = 1;
  double weight_decay = 0;

  bool operator==(const Hyperparameters&) const = default;
};

/// Elements of a state, counted in the local range of this rank.
struct Run {
  layout::Range local;
  Hyperparameters values;
};

/// One on the mesh of the most ranks; experts are on meshes of some of them.
const buffer::NamedState& widest_state(std::span<const buffer::NamedState> states);

class Groups {
public:
  /// All tensors have `weight_decay`.
  Groups(std::span<const buffer::NamedState> states, double weight_decay);

  /// As Optimizer::set_group, for the states of the constructor.
  void set(std::span<const buffer::NamedState> states, const std::string& pattern, const GroupOptions& options);

  /// Cover the local range of a state, padding included, in order.
  const std::vector<Run>& runs(std::size_t state) const { return runs_[state]; }
  /// Of the states on `mesh`: experts, and so their order, may be others on other ranks.
  std::int64_t hash(std::span<const buffer::NamedState> states, const buffer::MeshPtr& mesh) const;

private:
  std::vector<std::vector<Hyperparameters>> values_; ///< [state][tensor]
  std::vector<std::vector<Run>> runs_;               ///< [state]
};

} // namespace ostraka::optim
