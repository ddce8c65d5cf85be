// SPDX-License-Identifier: Apache-2.0
// A ring of buffers into which producers write whole gradients and from which reductions read. A producer waits only
// when the next slot is still being reduced.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/fsdp/slot_ring.hpp>
#include <ostraka/memory/storage.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

namespace ostraka::fsdp {

class OSTRAKA_API GradientSlots {
public:
  /// `count` slots, or as many as `most_bytes` have room for, but one.
  GradientSlots(std::shared_ptr<memory::Arena> arena, int count,
                std::int64_t most_bytes = std::numeric_limits<std::int64_t>::max())
      : arena_(std::move(arena)), ring_(count, most_bytes) {}

  /// Makes every slot at least `bytes` large, and the arena large enough for `needed` of them, or for the ring if that
  /// is smaller, but at least for `at_once` that are bound at the same time, so that steps do not find it full. Set-up
  /// only: no slot may be in use. Throws OUT_OF_MEMORY.
  void reserve(std::int64_t bytes, int needed, int at_once = 1);

  /// Takes the next slot of the ring, for producers on `compute`, which waits for its last reduction; adds one when all
  /// are bound to modules that have uses to come. Contents undefined.
  int acquire(runtime::Stream& compute);
  const std::shared_ptr<memory::Storage>& storage(int slot) const { return slots_[slot].storage; }
  /// The producer is done; the slot is free again after `reduced`.
  void release(int slot, runtime::Event reduced);

  /// Gives all memory back; no slot may be in use, and the compute stream has waited for all reductions.
  void release_storage();

private:
  struct Slot {
    std::shared_ptr<memory::Storage> storage;
    runtime::Event reduced;
  };

  std::shared_ptr<memory::Arena> arena_;
  SlotRing ring_;
  std::vector<Slot> slots_;
};

} // namespace ostraka::fsdp
