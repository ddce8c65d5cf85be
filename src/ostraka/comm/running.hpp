// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/base/export.hpp>

namespace ostraka::comm {

/// Throws INVALID_STATE naming `operation` once the library or MPI was finalised: objects that are left can only be
/// destroyed. Local.
OSTRAKA_API void require_running(const char* operation);

} // namespace ostraka::comm
