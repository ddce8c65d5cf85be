// SPDX-License-Identifier: Apache-2.0
// When the gradients of a bucket are complete: contributions are counted per parameter. Pure.
// Source: spec/megatron_fsdp.md 5.3, design section 3 "DDP".
#pragma once

#include <ostraka/base/export.hpp>

#include <vector>

namespace ostraka::ddp {

class OSTRAKA_API UseCounts {
public:
  /// Parameter p belongs to group groups[p], 0 <= group < num_groups, and is used `uses` times, or uses_auto.
  UseCounts(std::vector<int> groups, int num_groups, int uses);

  /// From the next backward pass on, or in this one where `parameter` has not been used; uses >= 0 or uses_auto.
  void set_uses(int parameter, int uses);

  int count(int parameter) const { return parameters_[parameter].count; }
  /// How many contributions complete it; uses_auto while that is not known.
  int expected(int parameter) const { return parameters_[parameter].expected; }
  /// Whether another contribution would be one too many.
  bool is_complete(int parameter) const;
  void add(int parameter);

  /// Whether nothing more will be contributed to `group`; never while one of its parameters learns its uses.
  bool is_group_complete(int group) const { return incomplete_[group] == 0; }
  /// Whether `parameter` lacks contributions; one that learns its uses needs at least one.
  bool is_missing(int parameter) const;

  /// Ends a backward pass: what was learned counts from now on, if it is `complete`.
  void reset(bool complete);

private:
  struct Parameter {
    int group;
    int expected;
    int count = 0;
  };
  void set_expected(Parameter& parameter, int expected);

  std::vector<Parameter> parameters_;
  std::vector<int> incomplete_; ///< [group]: parameters that are not complete
};

} // namespace ostraka::ddp
