// SPDX-License-Identifier: Apache-2.0
// The clocks of the queues of a rank, and what happens in the step that is reported.
#pragma once

#include <ostraka/fsdp/weight_rules.hpp>
#include <ostraka/plan/impl/network.hpp>

#include <array>
#include <string>
#include <vector>

namespace ostraka::plan::impl {

using fsdp::Queue;

/// Who asks.
struct Place {
  int module = -1;
  int group = -1;
};

class Recorder {
public:
  Recorder(Network& network, bool has_one_queue) : network_(network), has_one_queue_(has_one_queue) {}

  /// Forgets what was recorded; clocks go on.
  void start();
  double now(Queue queue) const { return clocks_[index(queue)]; }
  /// Work of `queue` begins at `time` or later.
  void wait(Queue queue, double time) {
    double& clock = clocks_[index(queue)];
    clock = clock < time ? time : clock;
  }

  void communicate(Queue queue, Place place, Collective kind, int axis, std::int64_t count, DType dtype);
  /// Reads and writes `bytes`.
  void touch(Queue queue, Place place, const char* operation, std::int64_t bytes);
  void compute(Place place, const char* operation, double seconds);

  double begin() const { return begin_; }
  double arithmetic() const { return arithmetic_; }
  const std::vector<Call>& calls() const { return calls_; }
  const std::vector<Span>& spans() const { return spans_; }

private:
  std::size_t index(Queue queue) const {
    return queue == Queue::reduce && has_one_queue_ ? static_cast<std::size_t>(Queue::gather)
                                                    : static_cast<std::size_t>(queue);
  }
  void add(Queue queue, Place place, const char* operation, double seconds, std::int64_t bytes);

  Network& network_;
  bool has_one_queue_;
  std::array<double, 3> clocks_{};
  double begin_ = 0;
  double arithmetic_ = 0;
  std::vector<Call> calls_;
  std::vector<Span> spans_;
};

} // namespace ostraka::plan::impl
