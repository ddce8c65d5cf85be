// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/base/export.hpp>

#include <string_view>

namespace ostraka {

/// Whether `pattern` describes the whole of `name`: `*` stands for any characters, none included, `?` for one.
OSTRAKA_API bool matches(std::string_view pattern, std::string_view name);

} // namespace ostraka
