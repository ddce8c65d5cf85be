// SPDX-License-Identifier: Apache-2.0
// Memory of which a node holds one copy for all its ranks, and the order of reading and writing it.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/comm/node/clocks.hpp>
#include <ostraka/comm/node/page_share.hpp>
#include <ostraka/comm/node/segment.hpp>
#include <ostraka/layout/segments.hpp>
#include <ostraka/memory/storage.hpp>
#include <ostraka/runtime/progress.hpp>

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

namespace ostraka::comm {

/// An arena in which equal program order gives all ranks of a node the same memory, and their clocks.
class OSTRAKA_API SharedMemory final : public runtime::Progressable {
public:
  /// Collective over `node`, whose ranks share memory. Throws OUT_OF_MEMORY on all ranks.
  explicit SharedMemory(MPI_Comm node);

  int rank() const { return clocks_.rank(); }
  int size() const { return clocks_.size(); }

  /// Of the regions, and of what all ranks allocate and release in the same order; those blocks have no pages.
  std::shared_ptr<memory::Arena> arena() const;
  /// Where `address` stands in memory that the ranks of a node see as one, and which needs one writer only; nothing for
  /// other memory. Local.
  static std::optional<std::int64_t> offset_of(const void* address);
  /// Takes pages for a block of the arena that is no region, each rank a part of those that are new. Local; nobody
  /// touches the block before all have done so. Throws OUT_OF_MEMORY where /dev/shm is full.
  void populate_evenly(const memory::Storage& storage);
  /// Bytes of the pages that this rank has taken: over the ranks, every page counts once.
  std::int64_t populated() const;
  /// This rank's even part of `bytes` bytes that all use: the parts of the ranks cover them once.
  layout::Range part_of(std::int64_t bytes) const { return node::part_of(bytes, rank(), size()); }

  /// Set-up is over: from here reads and writes wait for each other. All ranks must have ended set-up before.
  void start() { is_started_ = true; }
  bool is_started() const { return is_started_; }

  /// A stretch of reading begins, such as a module's. Where ranks share cores they take turns here: who is a stretch
  /// ahead of a peer lets others run, so that what one rank has read is still in the cache for the next, for no longer
  /// than its own last stretch or 10 ms. Local: nobody needs to come.
  void keep_pace();

  /// Events of this rank so far. advance_to() brings it to `number` at least, where ranks may have counted differently;
  /// no rank reads or writes a region meanwhile.
  std::int64_t now() const { return clocks_.now(rank()); }
  void advance_to(std::int64_t number) { clocks_.advance_to(number); }

  /// Whether a wait was given up or ranks were found to differ: the order of reads and writes is lost.
  bool has_failed() const { return has_failed_; }
  /// Tells the peers that this rank has given up: their waits throw FAILED with the cause.
  void tell_peers(const std::string& cause) noexcept { clocks_.failure().tell(rank(), cause); }

  void progress() noexcept override {} // clocks move by themselves
  std::string pending() const override;
  void abandon(const std::string&) noexcept override {} // nothing is in flight

private:
  friend class SharedRegion;
  class Arena;
  using Clock = std::chrono::steady_clock;

  struct Wait {
    std::int64_t number = 0; ///< of the event; 0: nobody waits
    const std::string* region = nullptr;
    const char* purpose = "";
  };

  std::uint32_t add_region(std::string name);
  template <class MayGoOn>
  void wait(std::int64_t number, const std::string& region, const char* purpose, MayGoOn&& may_go_on);
  void expect_same(std::int64_t number, const node::Event& own);

  std::shared_ptr<Arena> arena_;
  node::Segment clock_pages_;
  node::Clocks clocks_;
  std::deque<std::string> regions_; ///< names
  node::Pace pace_{clocks_};
  Clock::time_point stretch_; ///< when the last one began
  bool shares_cores_;
  bool is_started_ = false;
  bool has_failed_ = false;
  Wait waiting_;
};

/// A block of it that is read and written as a whole: readers read everything, each rank writes its part. All ranks
/// make regions, and the calls of all regions of one memory, in the same order. Begins wait for peers: TIME_OUT, FAILED
/// when a peer gave up, RANKS_DISAGREE when a peer wrote another region. Before start() nothing waits. With
/// OSTRAKA_CHECK=1 a rank that writes other than between begin_write and end_write is stopped by the system (SIGSEGV).
class OSTRAKA_API SharedRegion {
public:
  /// `bytes` of which this rank takes the pages of `own` from the system, zero, on the caller's memory domain, and
  /// writes `written`. The own parts of the ranks cover the region once. Local; nobody may read before all ranks have
  /// done so. Throws OUT_OF_MEMORY where /dev/shm is full.
  SharedRegion(std::shared_ptr<SharedMemory> memory, std::string name, std::int64_t bytes, const layout::Range& own,
               const layout::Range& written);
  ~SharedRegion();
  SharedRegion(const SharedRegion&) = delete;
  SharedRegion& operator=(const SharedRegion&) = delete;

  const std::shared_ptr<memory::Storage>& storage() const { return storage_; }

  /// Waits until all ranks have ended the last write; begin_read() does, too.
  void wait_written();
  void begin_read() { wait_written(); }
  void end_read();
  void begin_write();
  /// The same where the caller knows that all ranks have ended their reads, or will not read any more.
  void begin_write_after_reads() { permit(true, written_); }
  void end_write();

private:
  const std::string& name() const { return memory_->regions_[id_]; }
  void permit(bool writes, const layout::Range& part) const;

  std::shared_ptr<SharedMemory> memory_;
  std::uint32_t id_;
  node::RegionClock clock_;
  std::shared_ptr<memory::Storage> storage_;
  layout::Range written_;     ///< bytes
  std::int64_t compared_ = 0; ///< the last write that was found to be everybody's
  bool is_guarded_;
};

} // namespace ostraka::comm
