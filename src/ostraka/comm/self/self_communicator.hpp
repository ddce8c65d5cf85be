// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/communicator.hpp>

#include <memory>
#include <string>

namespace ostraka::comm {

/// A group of this process alone: copies in the memory of any device, no message passing.
OSTRAKA_API std::shared_ptr<Communicator> make_self_communicator(std::string name);

} // namespace ostraka::comm
