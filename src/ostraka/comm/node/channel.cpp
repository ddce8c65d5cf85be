// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/impl/vectors.hpp>
#include <ostraka/comm/node/channel.hpp>

namespace ostraka::comm::node {

static_assert(std::atomic<std::int64_t>::is_always_lock_free, "atomics in shared memory must not need locks");

std::int64_t Channel::bytes(int size) {
  return static_cast<std::int64_t>(sizeof(Failure)) + static_cast<std::int64_t>(sizeof(Slot)) * slots * size;
}

bool Channel::can_publish(std::int64_t sequence) const { return sequence < slots || all_finished(sequence - slots); }

void Channel::publish(std::int64_t sequence, const Notice& notice) {
  Slot& own = slot(rank_, sequence);
  static_cast<Details&>(own.notice) = notice;
  // Release alone leaves the caller's own non-temporal stores behind; sequential consistency would also hold up this
  // rank's next look at its peers until they have let the line go. The line that they poll is written behind it, in one
  // go, as they would take it away meanwhile.
  impl::fence();
  static_cast<Shown&>(own.notice) = notice;
  own.published.store(sequence + 1, std::memory_order_release);
}

bool Channel::all_published(std::int64_t sequence) const {
  for (int k = 0; k < size_; ++k)
    if (slot(k, sequence).published.load(std::memory_order_acquire) != sequence + 1)
      return false;
  return true;
}

void Channel::land(std::int64_t sequence) {
  slot(rank_, sequence).landed.store(sequence + 1, std::memory_order_release);
}

// Nobody's slot is used again before this rank has finished.
bool Channel::all_landed(std::int64_t sequence) const {
  for (int k = 0; k < size_; ++k)
    if (slot(k, sequence).landed.load(std::memory_order_acquire) != sequence + 1)
      return false;
  return true;
}

void Channel::finish(std::int64_t sequence) {
  slot(rank_, sequence).finished.store(sequence + 1, std::memory_order_release);
}

// A rank that is ahead may have used the slot again for a later operation, which it does only once all have finished
// this one.
bool Channel::all_finished(std::int64_t sequence) const {
  for (int k = 0; k < size_; ++k)
    if (slot(k, sequence).finished.load(std::memory_order_acquire) < sequence + 1)
      return false;
  return true;
}

} // namespace ostraka::comm::node
