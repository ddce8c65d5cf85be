// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/node/channel.hpp>

#include <cstring>

namespace ostraka::comm::node {

static_assert(std::atomic<std::int64_t>::is_always_lock_free, "atomics in shared memory must not need locks");

std::int64_t Channel::bytes(int size) {
  return static_cast<std::int64_t>(sizeof(Failure)) + static_cast<std::int64_t>(sizeof(Slot)) * slots * size;
}

bool Channel::can_publish(std::int64_t sequence) const { return sequence < slots || all_finished(sequence - slots); }

void Channel::publish(std::int64_t sequence, const Notice& notice) {
  Slot& own = slot(rank_, sequence);
  own.notice = notice;
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

void Channel::fail_all(int number, const std::string& cause) noexcept {
  int none = 0;
  if (!failure().state.compare_exchange_strong(none, 1))
    return; // the first cause counts
  failure().number = number;
  std::strncpy(failure().cause.data(), cause.c_str(), failure().cause.size() - 1);
  failure().state.store(2, std::memory_order_release);
}

void Channel::expect_alive() const {
  if (failure().state.load(std::memory_order_acquire) != 2)
    return;
  fail(Status::FAILED, "rank ", failure().number, " of the group gave up: ", failure().cause.data());
}

} // namespace ostraka::comm::node
