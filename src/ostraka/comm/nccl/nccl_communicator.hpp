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
/// `host` has the same ranks and carries what they agree on; `arena`, of the device, has room for conversions. With
/// `checks` ranks compare every operation before it starts, as with MPI, and nothing is aggregated. An operation that
/// does not end is aborted when a wait times out. One process per GPU. Collective over `host`. Throws NOT_SUPPORTED
/// without NCCL in the build, COMMUNICATION with NCCL's text, TIME_OUT where a rank does not come, on all ranks.
OSTRAKA_API std::shared_ptr<Communicator> make_nccl_communicator(std::shared_ptr<Communicator> host, std::string name,
                                                                 std::shared_ptr<memory::Arena> arena, bool checks);

} // namespace ostraka::comm
