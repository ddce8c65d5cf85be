// SPDX-License-Identifier: Apache-2.0
// What an optimizer or a checkpoint sees of a group of parameters: buffers of one layout, by name. fsdp offers it,
// optim consumes and extends it, checkpoint writes and reads it.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ostraka::buffer {

struct NamedState {
  std::vector<std::string> tensor_names; ///< one per tensor of the layout, "module.parameter"
  DBuffer main_weight;
  DBuffer model_weight;  ///< the same elements in the storage type; refers to nothing where that is main_weight itself
  DBuffer main_gradient; ///< same layout, placements and type as main_weight; refers to nothing for frozen weights
  std::map<std::string, DBuffer> state;       ///< "exp_avg", ...: likewise, created by the optimizer
  std::shared_ptr<memory::Arena> state_arena; ///< where state is created; null: beside main_gradient
  std::function<bool()> has_gradient;         ///< whether main_gradient holds a complete gradient
  /// A number that changes with every contribution to main_gradient; empty: nobody counts.
  std::function<std::int64_t()> gradient_version;
  std::function<void()> check_update;  ///< throws while the weights are in use
  std::function<void()> before_update; ///< call before each change of main_weight; may wait until peers let it go
  std::function<void()> refresh;       ///< main weight -> model weight; call after each change of main_weight
  /// Has the last reduction before each step hand its results, elements of main_gradient, to a consumer that updates
  /// weights, where they are not kept for other reasons; null: no longer. publish() comes before other use of weights.
  std::function<void(comm::Consumer)> update_while_reducing;
  std::function<bool()> is_updated;   ///< whether that has happened since publish(); main_gradient is undefined then
  std::function<void()> publish;      ///< call instead of refresh by who has written model_weight, too
  std::function<void()> after_update; ///< call when all states of a change are refreshed or published; null: no need
  std::map<std::string, int> other_names; ///< of tied tensors, and their indices in tensor_names
};

} // namespace ostraka::buffer
