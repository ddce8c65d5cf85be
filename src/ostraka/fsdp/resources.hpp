// SPDX-License-Identifier: Apache-2.0
// What the groups of a context share: where memory comes from and where work is queued.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/comm/node/shared_memory.hpp>
#include <ostraka/fsdp/gradient_slots.hpp>
#include <ostraka/fsdp/recipe.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/stream.hpp>

#include <memory>

namespace ostraka::fsdp {

struct Resources {
  buffer::MeshPtr mesh;
  ContextConfig config;
  RecipePlacements placements;
  mesh::Communicators communicators; ///< of this context alone
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<comm::SharedMemory> shared; ///< of whole weights; null where a rank shares none
  bool rests_whole = false; ///< each node has one whole copy of the weights at rest; equal on all ranks
  // Memory of the arena changes hands in the order of the compute stream: it waits for whoever uses memory on another
  // stream before that goes back, and others wait for it behind taking some. So hosts release at once what queued work
  // still uses.
  std::shared_ptr<runtime::Stream> compute;
  std::shared_ptr<runtime::Stream> gather;
  std::shared_ptr<runtime::Stream> reduce;
  GradientSlots slots;
  bool is_open = true; ///< false once the context is destroyed

  /// Whether gathers that are handed over axis by axis, outer to inner, run in that order: an axis of one rank hands
  /// over at once.
  bool gathers_outwards_in() const;
  /// Operations of a reduction, of a contribution (step 0) and of its end (step 1).
  int reductions(int step) const;
};

} // namespace ostraka::fsdp
