// SPDX-License-Identifier: Apache-2.0
#include <ostraka/layout/global_layout.hpp>

#include <array>
#include <charconv>

namespace ostraka::layout {
namespace {

/// Padding per payload with one decimal, "-" where there is no payload to compare with.
std::string padding_percent(const GlobalLayout& layout) {
  if (layout.payload() == 0)
    return "-";
  const double percent = 100.0 * static_cast<double>(layout.padding()) / static_cast<double>(layout.payload());
  // to_chars ignores the locale that the application has set.
  std::array<char, 48> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), percent, std::chars_format::fixed, 1);
  return {text.data(), result.ptr};
}

} // namespace

std::string report(const GlobalLayout& layout) {
  return std::string(name(layout.policy())) + ": " + std::to_string(layout.num_tensors()) + " tensors, payload " +
         std::to_string(layout.payload()) + ", padding " + std::to_string(layout.padding()) + " (" +
         padding_percent(layout) + " %), " + std::to_string(layout.segments()) + " segments of " +
         std::to_string(layout.segment_size()) + " elements";
}

} // namespace ostraka::layout
