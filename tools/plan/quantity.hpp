// SPDX-License-Identifier: Apache-2.0
// Numbers with units, in and out.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ostraka::tool {

/// Bytes of "80GiB" (1024s), "80GB" (1000s), "1.5 TiB", "4096", "4096 B"; at most 2^62. Throws INVALID_ARGUMENT that
/// names `what`.
std::int64_t parse_bytes(std::string_view text, std::string_view what);

/// All of `text` as a whole number in [least, most]; throws INVALID_ARGUMENT that names `what`.
std::int64_t parse_whole(std::string_view text, std::int64_t least, std::int64_t most, std::string_view what);

/// Three digits, or more before the point: "0.0234", "7.81", "15", "1640"; "0" for 0.
std::string digits_text(double value);

/// "15 GiB", "1023 MiB", "17 B".
std::string bytes_text(std::int64_t bytes);

/// "8.03 G", "25.6 M", "700".
std::string count_text(std::int64_t count);

/// "12.3 ms", "1.2 s".
std::string seconds_text(double seconds);

/// "8,030,261,248"
std::string grouped_text(std::int64_t value);

/// The unit in which `most` bytes are written, and its bytes.
struct ByteUnit {
  const char* name;
  double bytes;
};
ByteUnit unit_for(std::int64_t most);

} // namespace ostraka::tool
