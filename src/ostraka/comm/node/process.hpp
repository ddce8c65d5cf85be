// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ostraka::comm::node {

/// A number that tells the processes of a node apart, across containers too.
std::uint64_t process_token();

} // namespace ostraka::comm::node
