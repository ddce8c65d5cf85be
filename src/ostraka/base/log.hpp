// SPDX-License-Identifier: Apache-2.0
// Lines on standard error, silent unless OSTRAKA_LOG_LEVEL asks for them.
#pragma once

#include <ostraka/base/export.hpp>

#include <string_view>

namespace ostraka::log {

OSTRAKA_API void warn(std::string_view text);
OSTRAKA_API void info(std::string_view text);

} // namespace ostraka::log
