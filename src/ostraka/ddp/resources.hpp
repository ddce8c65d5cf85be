// SPDX-License-Identifier: Apache-2.0
// What the buckets of a DistributedDataParallel share: who reduces together, where memory comes from and where work is
// queued.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/comm/step_status.hpp>
#include <ostraka/ddp/config.hpp>
#include <ostraka/mesh/device_mesh.hpp>
#include <ostraka/runtime/stream.hpp>

#include <memory>

namespace ostraka::ddp {

/// Ranks that reduce gradients together. A sharded optimizer is sharded over the innermost axis of their mesh.
struct Ranks {
  buffer::MeshPtr mesh;
  mesh::Communicators communicators; ///< of this owner alone
  std::shared_ptr<memory::Arena> arena;
  std::shared_ptr<memory::Arena> gradient_arena; ///< holds nothing else, so that offloading empties it
  double pre_scale = 1;                          ///< of gradients before they are reduced with `op`
  layout::ReduceOp op = layout::ReduceOp::mean;
};

struct Resources {
  Config config;
  // Memory changes hands in the order of the compute stream, which waits for reductions before gradients go.
  std::shared_ptr<runtime::Stream> compute;
  std::shared_ptr<runtime::Stream> gather;
  std::shared_ptr<runtime::Stream> reduce;
  std::unique_ptr<comm::StepStatus> status;
};

} // namespace ostraka::ddp
