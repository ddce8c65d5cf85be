// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/communicator.hpp>

#include <deque>
#include <memory>
#include <vector>

namespace ostraka::fsdp::impl {

/// While it lives, what some communicators are asked for on `stream` is collected: one launch for each of them where
/// NCCL aggregates, in their order.
class Launches {
public:
  using Lines = std::vector<std::shared_ptr<comm::Communicator>>;

  /// Not `collects`: nothing is collected.
  Launches(const Lines& lines, runtime::Stream& stream, bool collects) {
    for (const auto& line : lines)
      if (collects)
        groups_.emplace_back(*line, stream);
  }

  void submit() {
    for (comm::Group& group : groups_)
      group.submit();
  }

private:
  std::deque<comm::Group> groups_;
};

} // namespace ostraka::fsdp::impl
