// SPDX-License-Identifier: Apache-2.0
// Buckets that are reduced and gathered together, and how far that is.
#pragma once

#include <ostraka/comm/launches.hpp>
#include <ostraka/ddp/bucket.hpp>

#include <memory>
#include <vector>

namespace ostraka::ddp {

struct BucketGroup {
  enum class Gradients {
    open,     ///< contributions are taken
    reducing, ///< in flight
    reduced,
  };
  enum class WeightState {
    whole,     ///< weights can be read
    stale,     ///< the optimizer has changed this rank's part
    gathering, ///< in flight
  };

  using Lines = comm::Launches::Lines;

  std::vector<std::shared_ptr<Bucket>> buckets;
  Lines reduction_lines; ///< empty unless there is something to be launched together
  Lines gather_lines;
  Gradients gradients = Gradients::open;
  WeightState weights = WeightState::whole;
  runtime::Event gathered;
};

} // namespace ostraka::ddp
