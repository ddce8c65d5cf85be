// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/node/clocks.hpp>

#include <algorithm>

namespace ostraka::comm::node {

static_assert(std::atomic<Event>::is_always_lock_free, "atomics in shared memory must not need locks");

std::int64_t Clocks::bytes(int size) {
  return static_cast<std::int64_t>(sizeof(Failure)) + static_cast<std::int64_t>(sizeof(Clock)) * size;
}

Clocks::Clocks(std::byte* memory, int rank, int size)
    : memory_(memory), rank_(rank), seen_(static_cast<std::size_t>(size)) {}

std::int64_t Clocks::tick(const Event& event) {
  const std::int64_t number = ++seen_[static_cast<std::size_t>(rank_)];
  clock(rank_).events[static_cast<std::size_t>(number % remembered)].store(event, std::memory_order_release);
  // Not release alone, behind which non-temporal stores of ours or of the caller may stay.
  clock(rank_).now.store(number, std::memory_order_seq_cst);
  return number;
}

void Clocks::advance_to(std::int64_t number) {
  std::int64_t& own = seen_[static_cast<std::size_t>(rank_)];
  own = std::max(own, number);
  clock(rank_).now.store(own, std::memory_order_seq_cst);
}

int Clocks::first_behind(std::int64_t number) {
  for (int k = 0; k < size(); ++k) {
    std::int64_t& seen = seen_[static_cast<std::size_t>(k)];
    if (seen < number && (seen = now(k)) < number)
      return k;
  }
  return size();
}

int Clocks::first_different(std::int64_t number, const Event& own) const {
  for (int k = 0; k < size(); ++k) {
    const Event other = event(k, number);
    // The peer may have put a later event in its place: then its clock, which it moves between events, tells.
    const bool is_known = now(k) < number + remembered - 1;
    if (is_known && other != own)
      return k;
  }
  return size();
}

Event Clocks::event(int rank, std::int64_t number) const {
  return clock(rank).events[static_cast<std::size_t>(number % remembered)].load(std::memory_order_acquire);
}

} // namespace ostraka::comm::node
