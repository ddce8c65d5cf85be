// SPDX-License-Identifier: Apache-2.0
#include <ostraka/plan/impl/recorder.hpp>

#include <algorithm>

namespace ostraka::plan::impl {

void Recorder::start() {
  calls_.clear();
  spans_.clear();
  arithmetic_ = 0;
  begin_ = now(Queue::compute);
}

void Recorder::communicate(Queue queue, Place place, Collective kind, int axis, std::int64_t count, DType dtype) {
  const Network::Cost cost = network_.cost(kind, axis, count, dtype);
  calls_.push_back({kind, axis, place.module, place.group, dtype, count, cost.sent, cost.received});
  add(queue, place, name(kind), cost.seconds, cost.sent);
}

void Recorder::touch(Queue queue, Place place, const char* operation, std::int64_t bytes) {
  add(queue, place, operation, network_.memory_seconds(bytes), bytes);
}

void Recorder::compute(Place place, const char* operation, double seconds) {
  arithmetic_ += seconds;
  add(Queue::compute, place, operation, seconds, 0);
}

void Recorder::add(Queue queue, Place place, const char* operation, double seconds, std::int64_t bytes) {
  double& clock = clocks_[index(queue)];
  if (queue != Queue::compute) { // what the rank's own core does of it comes before what the rank computes next
    double& own = clocks_[index(Queue::compute)];
    if (network_.overlap() < 1)
      wait(queue, own);
    own += (1 - network_.overlap()) * seconds;
  }
  if (seconds > 0)
    spans_.push_back({static_cast<Span::Track>(index(queue)), place.module, operation, clock, clock + seconds, bytes});
  clock += seconds;
}

} // namespace ostraka::plan::impl
