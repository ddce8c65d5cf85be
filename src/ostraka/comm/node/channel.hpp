// SPDX-License-Identifier: Apache-2.0
// What the ranks of a group on one node tell each other about their operations, in shared memory: a ring of slots per
// rank. A rank publishes an operation in its slot, works when all ranks have published theirs, and then says that it has
// finished; when all have, the memory of the operation belongs to its rank again. No barrier is needed, and an order
// that differs between ranks is seen before anything moves.
#pragma once

#include <ostraka/comm/impl/record.hpp>
#include <ostraka/comm/node/node_arena.hpp>
#include <ostraka/comm/node/segment.hpp>

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace ostraka::comm::node {

/// What a rank publishes of one operation.
struct Notice {
  impl::Record record;
  Location data;  ///< what peers read, and in an all-reduce write
  Location list;  ///< of the transfers of an exchange
  std::int64_t list_size = 0;
};

class Channel {
public:
  /// Collective over `group`, whose ranks share a node. Throws OUT_OF_MEMORY on all ranks.
  explicit Channel(MPI_Comm group);

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Whether the slot of operation `sequence` is free: all ranks have finished the one that used it before.
  bool can_publish(std::int64_t sequence) const;
  void publish(std::int64_t sequence, const Notice& notice);
  bool all_published(std::int64_t sequence) const;
  void finish(std::int64_t sequence);
  bool all_finished(std::int64_t sequence) const;

  const Notice& notice(int rank, std::int64_t sequence) const { return slot(rank, sequence).notice; }
  /// The address in this process of what `rank` published.
  std::byte* address(int rank, const Location& location) const;

  /// Room in shared memory for small data of operation `sequence` of this rank.
  static constexpr std::int64_t inline_bytes = 1024;
  Location inline_location(std::int64_t sequence) const;

  /// Tells the peers that this rank has given up; expect_alive() throws FAILED with the first cause told.
  void fail_all(const std::string& cause) noexcept;
  void expect_alive() const;

private:
  static constexpr std::int64_t slots = 16; ///< operations of a rank in flight

  struct alignas(128) Slot {
    std::atomic<std::int64_t> published; ///< 1 + the sequence number of the notice
    std::atomic<std::int64_t> finished;  ///< likewise
    Notice notice;
    alignas(64) std::array<std::byte, inline_bytes> data;
  };
  struct alignas(128) Failure {
    std::atomic<int> state; ///< 0 none, 1 being written, 2 told
    int rank;
    std::array<char, 1000> cause;
  };

  Slot& slot(int rank, std::int64_t sequence) const;
  Failure& failure() const { return *reinterpret_cast<Failure*>(segment().data()); }
  const Segment& segment() const { return segments_.front(); }

  int rank_ = 0;
  int size_ = 1;
  std::vector<std::uint64_t> tokens_; ///< [rank]
  std::vector<Segment> segments_;     ///< that of rank 0; the others are empty
};

} // namespace ostraka::comm::node
