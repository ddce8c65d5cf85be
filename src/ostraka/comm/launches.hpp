// SPDX-License-Identifier: Apache-2.0
// What is started together on several communicators.
#pragma once

#include <ostraka/comm/communicator.hpp>

#include <deque>
#include <memory>
#include <optional>
#include <vector>

namespace ostraka::comm {

/// While it lives, what some communicators are asked for on `stream` is collected: one launch for each of them where
/// NCCL aggregates, in their order.
class Launches {
public:
  using Lines = std::vector<std::shared_ptr<Communicator>>;

  /// Not `collects`: nothing is collected.
  Launches(const Lines& lines, runtime::Stream& stream, bool collects) {
    if (!collects) // a deque takes memory even when it is empty
      return;
    groups_.emplace();
    for (const auto& line : lines)
      groups_->emplace_back(*line, stream);
  }

  void submit() {
    if (groups_)
      for (Group& group : *groups_)
        group.submit();
  }

private:
  std::optional<std::deque<Group>> groups_;
};

} // namespace ostraka::comm
