// SPDX-License-Identifier: Apache-2.0
// How shapes, sizes and sums are written.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ostraka::tool {

/// "[3, 4]", "[]" for a number.
std::string shape_text(std::span<const std::int64_t> shape);

/// "17 B", "4.0 KiB", ...
std::string human_bytes(std::int64_t bytes);

/// "0x0123abcd"
std::string hexadecimal(std::uint32_t value);

/// Control characters, which could move a terminal's cursor, as \xNN.
std::string printable(std::string_view text);

/// The shortest text that reads back as the same number.
std::string number_text(double value);
std::string number_text(float value);

/// Whether `name` is one of the patterns (* stands for any characters, ? for one); true without patterns.
bool is_selected(std::string_view name, const std::vector<std::string>& only);

} // namespace ostraka::tool
