// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/mpi/mpi_communicator.hpp>
#include <ostraka/comm/node/channel.hpp>
#include <ostraka/comm/node/process.hpp>

#include <cstring>

namespace ostraka::comm::node {

static_assert(std::atomic<std::int64_t>::is_always_lock_free, "atomics in shared memory must not need locks");

namespace {

// A location of arena 0 is an offset in the segment of the channel itself; arenas never have this number.
constexpr std::uint64_t channel_arena = 0;

} // namespace

Channel::Channel(MPI_Comm group) {
  MPI_Comm_rank(group, &rank_);
  MPI_Comm_size(group, &size_);
  tokens_.resize(static_cast<std::size_t>(size_));
  const std::uint64_t own = process_token();
  check_mpi(MPI_Allgather(&own, 1, MPI_UINT64_T, tokens_.data(), 1, MPI_UINT64_T, group), "node channel: tokens");
  const std::int64_t bytes = static_cast<std::int64_t>(sizeof(Failure)) +
                             static_cast<std::int64_t>(sizeof(Slot)) * slots * size_;
  segments_ = share(group, rank_ == 0 ? bytes : 0);
  int code = 0; // zero pages are a valid beginning: nothing published, nothing failed
  if (rank_ == 0)
    try {
      segments_[0].populate(0, bytes);
    } catch (const Error&) {
      code = 1;
    }
  check_mpi(MPI_Bcast(&code, 1, MPI_INT, 0, group), "node channel: memory");
  expect(code == 0, Status::OUT_OF_MEMORY, "node channel: /dev/shm has no room for ", bytes, " bytes");
}

Channel::Slot& Channel::slot(int rank, std::int64_t sequence) const {
  std::byte* first = segment().data() + sizeof(Failure);
  return reinterpret_cast<Slot*>(first)[rank * slots + sequence % slots];
}

bool Channel::can_publish(std::int64_t sequence) const {
  return sequence < slots || all_finished(sequence - slots);
}

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

std::byte* Channel::address(int rank, const Location& location) const {
  if (location.arena == channel_arena)
    return segment().data() + location.offset;
  return resolve(tokens_[static_cast<std::size_t>(rank)], location);
}

Location Channel::inline_location(std::int64_t sequence) const {
  return {channel_arena, slot(rank_, sequence).data.data() - segment().data()};
}

void Channel::fail_all(const std::string& cause) noexcept {
  int none = 0;
  if (!failure().state.compare_exchange_strong(none, 1))
    return; // the first cause counts
  failure().rank = rank_;
  std::strncpy(failure().cause.data(), cause.c_str(), failure().cause.size() - 1);
  failure().state.store(2, std::memory_order_release);
}

void Channel::expect_alive() const {
  if (failure().state.load(std::memory_order_acquire) != 2)
    return;
  fail(Status::FAILED, "rank ", failure().rank, " of the group gave up: ", failure().cause.data());
}

} // namespace ostraka::comm::node
