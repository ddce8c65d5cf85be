// SPDX-License-Identifier: Apache-2.0
// Who may read and who may write memory that the ranks of a node share, without barriers: one clock a rank in shared
// memory. Program order is common to the ranks, so each knows the numbers of its peers' events by itself.
// Source: design section 3, "Node-shared memory"; rules S1 and S2 of spec/backends.md D.
#pragma once

#include <ostraka/comm/node/failure.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace ostraka::comm::node {

/// What a rank has done with a region of memory. Zero is no event. (Aligned, or Clang calls libatomic.)
struct alignas(8) Event {
  enum class Kind : std::uint32_t { write = 1, release = 2 }; ///< its part is new; it reads no more
  Kind kind = {};
  std::uint32_t region = 0;

  bool operator==(const Event&) const = default;
};

/// Its memory is all it knows of other ranks, so it runs between threads, too.
class Clocks {
public:
  /// Bytes that `size` ranks share.
  static std::int64_t bytes(int size);
  /// `memory` is shared by all ranks, aligned to 128 bytes, zero before the first rank arrives, and outlives this.
  Clocks(std::byte* memory, int rank, int size);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(seen_.size()); }
  /// Events of a rank so far.
  std::int64_t now(int rank) const { return clock(rank).now.load(std::memory_order_acquire); }

  /// The next event of this rank: who has seen its number sees everything that this rank has stored before. Returns
  /// the number, from 1.
  std::int64_t tick(const Event& event);
  /// Skips numbers up to `number`, unless they are past.
  void advance_to(std::int64_t number);
  /// The first rank whose clock is behind `number`, or size().
  int first_behind(std::int64_t number);
  /// The first rank whose event `number`, which all clocks have reached, is known to be another one than `event`, or
  /// size(). Events of a peer that is `remembered` ahead are not known any more.
  int first_different(std::int64_t number, const Event& event) const;
  /// Event `number` of `rank` as far as it is known.
  Event event(int rank, std::int64_t number) const;

  Failure& failure() const { return *reinterpret_cast<Failure*>(memory_); }

  static constexpr std::int64_t remembered = 128;

private:
  struct alignas(128) Clock {
    std::atomic<std::int64_t> now;
    alignas(128) std::array<std::atomic<Event>, remembered> events;
  };
  Clock& clock(int rank) const { return reinterpret_cast<Clock*>(memory_ + sizeof(Failure))[rank]; }

  std::byte* memory_;
  int rank_;
  std::vector<std::int64_t> seen_; ///< [rank]; looking at a fresh line of a peer costs more than all the rest
};

/// The protocol of one region, which every rank follows at the same places of its program: begin to read or to write
/// when may_read() or may_write() says so, tell the end by released() or written(). Every byte has one writer.
class RegionClock {
public:
  RegionClock(Clocks& clocks, std::uint32_t region) : clocks_(&clocks), region_(region) {}

  /// S1: all ranks have made their last write.
  bool may_read() { return clocks_->first_behind(last_write_) == clocks_->size(); }
  /// S2: all ranks have released the contents that would be replaced.
  bool may_write() { return clocks_->first_behind(last_release_) == clocks_->size(); }
  void written() { last_write_ = clocks_->tick(write_event()); }
  void released() { last_release_ = clocks_->tick({Event::Kind::release, region_}); }

  std::int64_t last_write() const { return last_write_; }
  std::int64_t last_release() const { return last_release_; }
  Event write_event() const { return {Event::Kind::write, region_}; }

private:
  Clocks* clocks_;
  std::uint32_t region_;
  std::int64_t last_write_ = 0;
  std::int64_t last_release_ = 0;
};

/// How far a rank runs ahead of its peers, in stretches of work of its own.
class Pace {
public:
  explicit Pace(Clocks& clocks) : clocks_(&clocks) {}

  /// The next stretch begins here.
  void begin_stretch() {
    before_ = last_;
    last_ = clocks_->now(clocks_->rank());
  }
  /// Whether all ranks have come to where this one began the stretch before.
  bool is_kept() { return clocks_->first_behind(before_) == clocks_->size(); }

private:
  Clocks* clocks_;
  std::int64_t last_ = 0;
  std::int64_t before_ = 0;
};

} // namespace ostraka::comm::node
