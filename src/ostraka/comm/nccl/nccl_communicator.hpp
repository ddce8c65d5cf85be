// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/communicator.hpp>
#include <ostraka/memory/arena.hpp>

#include <memory>
#include <string>

namespace ostraka::comm {

/// Whether the library was built with NCCL.
OSTRAKA_API bool has_nccl();

/// A communicator whose operations NCCL carries out on GPUs, in the order of the streams on which they are queued: for
/// hosts they are complete once queued. Groups are one launch. Sums are NCCL's, in its order, those of 16-bit types in
/// f32 and rounded once; means divide sums by the ranks; extremes are NaN where an element is.
/// With `shares` communicators that are split from it use its resources.
/// `host` has the same ranks and carries what they agree on; `arena`, of the device, has room for conversions. With
/// `checks` ranks compare every operation before it starts, as with MPI, and nothing is aggregated. An operation that
/// does not end is aborted when a wait times out. One process per GPU. Collective over `host`. Throws NOT_SUPPORTED
/// without NCCL in the build, COMMUNICATION with NCCL's text, TIME_OUT where a rank does not come, on all ranks.
OSTRAKA_API std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, std::string name,
                                                                 std::shared_ptr<memory::Arena> arena, bool checks,
                                                                 bool shares = false);

/// The same for those ranks of `parent`, another one of these without operations in flight, that pass the same `color`
/// >= 0, in the order of their ranks; `host` has just these ranks. Starts faster, since ranks know each other.
/// Collective over `parent`.
OSTRAKA_API std::shared_ptr<Communicator> split_nccl_communicator(Communicator& parent, int color,
                                                                  std::shared_ptr<Communicator> host, std::string name);

/// Whether several ranks of NCCL may use one GPU: 2.30 or newer, asked by NCCL_MULTI_RANK_GPU_ENABLE=1. Local.
OSTRAKA_API bool can_share_gpus();

/// Whether NCCL's windows can be used: it is one that works with them (2.30.7 or newer). Local.
OSTRAKA_API bool can_register_memory();

/// An arena of GPU memory that Communicator::rendezvous registers: every block is an allocation of NCCL of its own,
/// which storage keeps while it is released. Local.
OSTRAKA_API std::shared_ptr<memory::Arena> make_registered_arena();

} // namespace ostraka::comm
