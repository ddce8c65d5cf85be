// SPDX-License-Identifier: Apache-2.0
// One cell of shared memory in which the first rank that gives up says why.
#pragma once

#include <ostraka/base/error.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <string>

namespace ostraka::comm::node {

/// Zero memory is a valid beginning: nobody has failed.
class alignas(128) Failure {
public:
  /// The first cause counts.
  void tell(int rank, const std::string& cause) noexcept {
    int none = 0;
    if (!state_.compare_exchange_strong(none, 1))
      return;
    rank_ = rank;
    std::strncpy(cause_.data(), cause.c_str(), cause_.size() - 1);
    state_.store(2, std::memory_order_release);
  }
  /// Throws FAILED with what was told.
  void expect_none() const {
    if (state_.load(std::memory_order_acquire) == 2)
      fail(Status::FAILED, "rank ", rank_, " of the group gave up: ", cause_.data());
  }

private:
  std::atomic<int> state_; ///< 0 none, 1 being written, 2 told
  int rank_;
  std::array<char, 1000> cause_;
};

} // namespace ostraka::comm::node
