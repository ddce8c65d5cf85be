// SPDX-License-Identifier: Apache-2.0
// The arenas of a rank, and of memory that it shares with peers.
#pragma once

#include <ostraka/comm/node/page_share.hpp>
#include <ostraka/fsdp/slot_ring.hpp>
#include <ostraka/plan/impl/arena.hpp>

#include <optional>
#include <vector>

namespace ostraka::plan::impl {

/// Of whole weights; without peers there is none.
struct SharedMemory {
  std::vector<int> ranks; ///< of the mesh, in order
  std::shared_ptr<Arena> arena = std::make_shared<Arena>(page);
  std::vector<comm::node::PageShare> shares; ///< [rank of it]
  std::vector<std::int64_t> region_bytes;    ///< of each region, as large as its weights

  explicit SharedMemory(std::vector<int> members) : ranks(std::move(members)) {
    for (std::size_t k = 0; k < ranks.size(); ++k)
      shares.emplace_back(static_cast<int>(k), static_cast<int>(ranks.size()), page);
  }
  int size() const { return static_cast<int>(ranks.size()); }
  /// As comm::SharedMemory::part_of.
  layout::Range part_of(std::int64_t bytes, int rank) const { return comm::node::part_of(bytes, rank, size()); }
};

/// Scratch of reductions over several axes: the last one is kept while it is large enough (memory::Scratch).
struct Scratch {
  Piece piece;
  std::int64_t bytes = -1;
};

struct Slot {
  Piece piece;
  double reduced_at = 0;
};

struct Memory {
  std::shared_ptr<Arena> arena = std::make_shared<Arena>(memory::Arena::alignment);
  std::optional<SharedMemory> shared;
  Scratch scratch;
  fsdp::SlotRing ring;
  std::vector<Slot> slots;
  Meter resting, main, gradients, addends, moments, slot_meter, gathered, gathered_shared, scratch_meter;
  Meter regions; ///< in whole pages: parts of them are counted as they are

  explicit Memory(const fsdp::SlotRing& slots_of) : ring(slots_of) {}

  /// As fsdp::GradientSlots::reserve.
  void reserve(std::int64_t bytes, int needed, int at_once) {
    std::vector<Piece> first_use; // given back at once
    const int count = ring.reserve(bytes, needed, at_once);
    for (int slot = 0; slot < count; ++slot)
      first_use.emplace_back(arena, ring.bytes(), memory::Kind::transient, slot_meter);
    for (Piece& piece : first_use)
      piece.give_back();
  }
};

} // namespace ostraka::plan::impl
