// SPDX-License-Identifier: Apache-2.0
// Memory of which a node holds one copy for all its ranks, and the order of reading and writing it.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/comm/node/clocks.hpp>
#include <ostraka/comm/node/segment.hpp>
#include <ostraka/memory/arena.hpp>
#include <ostraka/runtime/progress.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

namespace ostraka::comm {

/// An arena in which equal program order gives all ranks of a node the same memory, and their clocks.
class OSTRAKA_API SharedMemory final : public runtime::Progressable {
public:
  /// Collective over `node`, whose ranks share memory. Throws OUT_OF_MEMORY on all ranks.
  explicit SharedMemory(MPI_Comm node);

  int rank() const { return clocks_.rank(); }
  int size() const { return clocks_.size(); }

  /// Its blocks have no pages yet. Allocate and release in the same order on all ranks.
  std::shared_ptr<memory::Arena> arena() const;
  /// Takes pages for `bytes` at `data`, a part of a block, zero when new, on the caller's memory domain. A rank does so
  /// for the part that it writes; nobody touches a part before all have done so. Throws OUT_OF_MEMORY where /dev/shm is
  /// full.
  void populate(std::byte* data, std::int64_t bytes);
  /// Bytes of the pages that this rank has taken: over the ranks, every page counts once.
  std::int64_t populated() const;

  /// Set-up is over: from here reads and writes wait for each other. All ranks must have ended set-up before.
  void start() { is_started_ = true; }
  bool is_started() const { return is_started_; }

  /// Tells the peers that this rank has given up: their waits throw FAILED with the cause.
  void tell_peers(const std::string& cause) noexcept { clocks_.failure().tell(rank(), cause); }

  void progress() noexcept override {} // clocks move by themselves
  std::string pending() const override;
  void abandon(const std::string&) noexcept override {} // nothing is in flight

private:
  friend class SharedRegion;
  class Arena;

  struct Wait {
    std::int64_t number = 0; ///< of the event; 0: nobody waits
    const std::string* region = nullptr;
    const char* purpose = "";
  };

  std::uint32_t add_region(std::string name);
  void wait(std::int64_t number, const std::string& region, const char* purpose);
  void expect_same(std::int64_t number, const node::Event& own) const;

  std::shared_ptr<Arena> arena_;
  node::Segment clock_pages_;
  node::Clocks clocks_;
  std::deque<std::string> regions_; ///< names
  bool is_started_ = false;
  Wait waiting_;
};

/// A part of it that is read and written as a whole: readers read everything, each rank writes its own bytes. All ranks
/// make the calls of a region, and of the regions of one memory, in the same order. Begins wait for peers: TIME_OUT,
/// FAILED when a peer gave up, RANKS_DISAGREE when a peer wrote another region. Before start() nothing waits.
class OSTRAKA_API SharedRegion {
public:
  SharedRegion(std::shared_ptr<SharedMemory> memory, std::string name);

  void begin_read();
  void end_read();
  void begin_write();
  void end_write();

private:
  const std::string& name() const { return memory_->regions_[id_]; }

  std::shared_ptr<SharedMemory> memory_;
  std::uint32_t id_;
  node::RegionClock clock_;
  std::int64_t compared_ = 0; ///< the last write that was found to be everybody's
};

} // namespace ostraka::comm
