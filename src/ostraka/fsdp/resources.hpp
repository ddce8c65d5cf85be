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
  std::shared_ptr<runtime::Stream> compute;
  std::shared_ptr<runtime::Stream> gather;
  std::shared_ptr<runtime::Stream> reduce;
  GradientSlots slots;
  bool is_open = true; ///< false once the context is destroyed
};

} // namespace ostraka::fsdp
