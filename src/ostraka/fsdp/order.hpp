// SPDX-License-Identifier: Apache-2.0
// The order in which modules run in a pass, recorded so that the next pass can gather ahead. Pure.
#pragma once

#include <ostraka/base/export.hpp>

#include <optional>
#include <span>
#include <vector>

namespace ostraka::fsdp {

class OSTRAKA_API Order {
public:
  /// What to expect before anything is recorded.
  void expect_first(std::vector<int> modules);

  /// `module` runs now. After the recorded order is complete it is predicted again from its begin, and both passes will
  /// be recorded as one; a pass that leaves the recorded order is no longer predicted, only recorded. Repeats are
  /// legal.
  void visit(int module);
  /// The module that runs next as far as the recorded order tells.
  std::optional<int> next() const;
  /// All that run until the recorded order ends; empty once a pass has left it. Valid until the next visit.
  std::span<const int> upcoming() const;
  /// What the recorded order has behind the next run of `module`, counted from where the pass is now, or else behind
  /// the first one.
  std::span<const int> after(int module) const;
  /// Whether the pass is as recorded so far.
  bool follows() const { return follows_; }
  /// Ends the pass: what was visited becomes the recorded order, unless nothing was.
  void finish();
  /// Ends the pass and keeps the recorded order (the pass failed).
  void cancel();

  bool has_started() const { return !visited_.empty(); }

private:
  std::vector<int> recorded_;
  std::vector<int> visited_; ///< since the recorded order was complete
  int complete_passes_ = 0;  ///< through the whole recorded order, before visited_
  bool follows_ = true;
};

} // namespace ostraka::fsdp
