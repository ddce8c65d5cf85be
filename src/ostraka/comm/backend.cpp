// SPDX-License-Identifier: Apache-2.0
#include <ostraka/comm/backend.hpp>

namespace ostraka::comm {

// MPI sends from private memory, so nothing has to be agreed on here.
std::shared_ptr<memory::Arena> make_arena(Communicator&) { return memory::make_host_arena(); }

} // namespace ostraka::comm
