// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group on one node tell each other about their operations, in shared memory: a ring of slots per
// rank. A rank publishes an operation in its slot, works when all ranks have published theirs, and then says that it
// has finished; when all have, the memory of the operation belongs to its rank again. In between, what a rank fetched
// from elsewhere for its peers lands. No barrier is needed, and an order that differs between ranks is seen before
// anything moves.
#pragma once

#include <ostraka/comm/impl/record.hpp>
#include <ostraka/comm/node/failure.hpp>
#include <ostraka/comm/node/location.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

namespace ostraka::comm::node {

/// What peers always need of an operation: it stands on the line that they poll.
struct Shown {
  std::uint64_t fingerprint = 0; ///< of the record, is_written_once and shared_offset
  Location data;                 ///< what peers read
  Location out;                  ///< where peers write the results of an all-reduce, or read what lands
};

/// What they need of some.
struct Details {
  bool is_packed = false;         ///< what lands stands there part after part, not each part at its place in the whole
  bool is_written_once = false;   ///< the output is memory of which the node has one copy
  std::int64_t shared_offset = 0; ///< where that is, the same for all
  Location list;                  ///< of the transfers of an exchange
  std::int64_t list_size = 0;
  impl::Record record;
};

/// What a rank publishes of one operation.
struct Notice : Shown, Details {};

/// Its memory is all it knows of other ranks, so it runs between threads, too.
class Channel {
public:
  /// Bytes that a group of `size` ranks shares.
  static std::int64_t bytes(int size);
  /// `memory` is shared by all ranks, aligned to 128 bytes, zero before the first rank arrives, and outlives the
  /// channel.
  Channel(std::byte* memory, int rank, int size) : memory_(memory), rank_(rank), size_(size) {}

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Whether the slot of operation `sequence` is free: all ranks have finished the one that used it before.
  bool can_publish(std::int64_t sequence) const;
  void publish(std::int64_t sequence, const Notice& notice);
  bool all_published(std::int64_t sequence) const;
  void land(std::int64_t sequence);
  bool all_landed(std::int64_t sequence) const;
  void finish(std::int64_t sequence);
  bool all_finished(std::int64_t sequence) const;

  const Notice& notice(int rank, std::int64_t sequence) const { return slot(rank, sequence).notice; }
  /// Room in shared memory for small data of an operation of `rank`.
  static constexpr std::int64_t inline_bytes = 1024;
  std::byte* inline_data(int rank, std::int64_t sequence) const { return slot(rank, sequence).data.data(); }

  /// Tells the peers that this rank has given up, by the number that it has for them; expect_alive() throws FAILED
  /// with the first cause told.
  void fail_all(int number, const std::string& cause) noexcept { failure().tell(number, cause); }
  void expect_alive() const { failure().expect_none(); }

private:
  static constexpr std::int64_t slots = 16; ///< operations of a rank in flight

  struct alignas(128) Slot {
    std::atomic<std::int64_t> published; ///< 1 + the sequence number of the notice
    std::atomic<std::int64_t> landed;    ///< likewise
    std::atomic<std::int64_t> finished;  ///< likewise
    Notice notice;
    alignas(64) std::array<std::byte, inline_bytes> data;
  };

  Slot& slot(int rank, std::int64_t sequence) const {
    return reinterpret_cast<Slot*>(memory_ + sizeof(Failure))[rank * slots + sequence % slots];
  }
  Failure& failure() const { return *reinterpret_cast<Failure*>(memory_); }

  std::byte* memory_;
  int rank_;
  int size_;
};

} // namespace ostraka::comm::node
