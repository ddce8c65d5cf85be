// SPDX-License-Identifier: Apache-2.0
// What a back end offers to the mesh: communicators and the arena that fits them.
#pragma once

#include <ostraka/comm/communicator.hpp>
#include <ostraka/memory/arena.hpp>

#include <memory>
#include <string>

namespace ostraka::comm {

/// A group of this process alone: copies, no message passing.
OSTRAKA_API std::shared_ptr<Communicator> make_self_communicator(std::string name);

/// An arena for buffers that the ranks of `group` communicate. Collective over the group.
OSTRAKA_API std::shared_ptr<memory::Arena> make_arena(Communicator& group);

} // namespace ostraka::comm
