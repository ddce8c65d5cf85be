// SPDX-License-Identifier: Apache-2.0
#include "quantity.hpp"

#include "text.hpp"
#include <ostraka/base/error.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

namespace ostraka::tool {
namespace {

constexpr std::array binary_units{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};

double factor_of(std::string_view unit) {
  constexpr std::array decimal_units{"B", "kB", "MB", "GB", "TB", "PB", "EB"};
  if (unit.empty())
    return 1;
  for (std::size_t i = 0; i < binary_units.size(); ++i) {
    if (unit == binary_units[i])
      return std::ldexp(1.0, static_cast<int>(10 * i));
    if (unit == decimal_units[i] || (unit == "KB" && i == 1))
      return std::pow(1000.0, static_cast<double>(i));
  }
  return 0;
}

std::string scaled(double value, const std::array<std::pair<double, const char*>, 4>& units) {
  for (const auto& [least, unit] : units)
    if (value >= least)
      return digits_text(value / least) + " " + unit;
  return digits_text(value / units.back().first) + " " + units.back().second;
}

} // namespace

std::int64_t parse_bytes(std::string_view text, std::string_view what) {
  double value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(result.ptr, static_cast<std::size_t>(text.data() + text.size() - result.ptr));
  unit.remove_prefix(std::min(unit.find_first_not_of(' '), unit.size()));
  const double factor = factor_of(unit), bytes = std::floor(value * factor);
  expect(result.ec == std::errc() && factor > 0 && bytes >= 0 && bytes <= std::ldexp(1.0, 62), Status::INVALID_ARGUMENT,
         what, ": expected bytes like 80GiB, 80GB or 4096, found '", printable(text), "'");
  return static_cast<std::int64_t>(bytes);
}

std::int64_t parse_whole(std::string_view text, std::int64_t least, std::int64_t most, std::string_view what) {
  std::int64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  expect(result.ec == std::errc() && result.ptr == text.data() + text.size() && value >= least && value <= most,
         Status::INVALID_ARGUMENT, what, ": expected a whole number from ", least, " to ", most, ", found '",
         printable(text), "'");
  return value;
}

std::string digits_text(double value) {
  if (value == 0)
    return "0";
  // As many digits behind the point as make three; rounding may add one before it.
  const auto decimals = [](double v) { return std::clamp(2 - static_cast<int>(std::floor(std::log10(v))), 0, 9); };
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals(std::abs(value)), value);
  const double rounded = std::abs(std::strtod(text.data(), nullptr));
  if (rounded > 0)
    std::snprintf(text.data(), text.size(), "%.*f", decimals(rounded), value);
  return text.data();
}

ByteUnit unit_for(std::int64_t most) {
  std::size_t unit = 0;
  auto value = static_cast<double>(most);
  for (; value >= 1024 && unit + 1 < binary_units.size(); ++unit)
    value /= 1024;
  return {binary_units[unit], std::ldexp(1.0, static_cast<int>(10 * unit))};
}

std::string bytes_text(std::int64_t bytes) {
  const ByteUnit unit = unit_for(bytes);
  if (unit.bytes == 1)
    return std::to_string(bytes) + " B";
  return digits_text(static_cast<double>(bytes) / unit.bytes) + " " + unit.name;
}

std::string count_text(std::int64_t count) {
  if (count < 1000)
    return std::to_string(count);
  return scaled(static_cast<double>(count), {{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}});
}

std::string seconds_text(double seconds) {
  if (seconds == 0)
    return "0 s";
  return scaled(seconds, {{{1, "s"}, {1e-3, "ms"}, {1e-6, "us"}, {1e-9, "ns"}}});
}

std::string grouped_text(std::int64_t value) {
  std::string text = std::to_string(value);
  const std::size_t first = value < 0 ? 1 : 0;
  for (std::size_t at = text.size(); at > first + 3;)
    text.insert(at -= 3, ",");
  return text;
}

} // namespace ostraka::tool
