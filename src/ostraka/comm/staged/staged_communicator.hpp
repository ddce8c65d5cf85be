// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/communicator.hpp>

#include <memory>
#include <string>

namespace ostraka::comm {

/// A communicator for memory of GPUs that carries everything through pinned host memory and `host`, whose ranks and
/// rules it has. Streams of devices go on with what is behind an operation once its result is on its way back; hosts
/// advance it in the wait loop.
OSTRAKA_API std::shared_ptr<Communicator> make_staged_communicator(std::shared_ptr<Communicator> host,
                                                                   std::string name);

} // namespace ostraka::comm
