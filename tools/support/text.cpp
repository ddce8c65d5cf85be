// SPDX-License-Identifier: Apache-2.0
#include "text.hpp"

#include <ostraka/base/pattern.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>

namespace ostraka::tool {
namespace {

template <class T>
std::string shortest(T value) {
  std::array<char, 32> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), result.ptr};
}

} // namespace

std::string shape_text(std::span<const std::int64_t> shape) {
  std::string text = "[";
  for (const std::int64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

std::string human_bytes(std::int64_t bytes) {
  constexpr std::array<const char*, 7> units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  auto value = static_cast<double>(bytes);
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < units.size(); ++unit)
    value /= 1024;
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), unit == 0 ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text.data();
}

std::string hexadecimal(std::uint32_t value) {
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), "0x%08x", value);
  return text.data();
}

std::string printable(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    std::array<char, 8> escaped{};
    std::snprintf(escaped.data(), escaped.size(), "\\x%02x", code);
    result += code < 0x20 || code == 0x7f ? std::string(escaped.data()) : std::string(1, c);
  }
  return result;
}

std::string number_text(double value) { return shortest(value); }
std::string number_text(float value) { return shortest(value); }

bool is_selected(std::string_view name, const std::vector<std::string>& only) {
  return only.empty() ||
         std::any_of(only.begin(), only.end(), [&](const std::string& pattern) { return matches(pattern, name); });
}

} // namespace ostraka::tool
