// SPDX-License-Identifier: Apache-2.0
#include <ostraka/layout/report.hpp>

#include <nlohmann/json.hpp>

#include <array>
#include <charconv>

namespace ostraka::layout {
namespace {

/// Padding per payload with one decimal, "-" where there is no payload to compare with.
std::string padding_percent(const LayoutReport& report) {
  if (report.payload == 0)
    return "-";
  const double percent = 100.0 * static_cast<double>(report.padding) / static_cast<double>(report.payload);
  // to_chars ignores the locale that the application has set.
  std::array<char, 48> text{};
  const auto result = std::to_chars(text.data(), text.data() + text.size(), percent, std::chars_format::fixed, 1);
  return {text.data(), result.ptr};
}

} // namespace

LayoutReport report(const GlobalLayout& layout) {
  const auto size = static_cast<double>(layout.size()), payload = static_cast<double>(layout.payload());
  const double everybody = static_cast<double>(layout.segment_size()) * layout.segments();
  LayoutReport report{layout.policy(),
                      layout.reason(),
                      layout.payload(),
                      layout.padding(),
                      layout.segments(),
                      layout.segment_size(),
                      size / layout.segments(),
                      0,
                      {}};
  report.overhead = layout.payload() > 0 ? everybody / payload - 1 : 0;
  for (int i = 0; i < layout.num_tensors(); ++i)
    report.owners.push_back(layout.owners(i));
  return report;
}

std::string to_text(const LayoutReport& report) {
  return std::string(name(report.policy)) + ": " + std::to_string(report.owners.size()) + " tensors, payload " +
         std::to_string(report.payload) + ", padding " + std::to_string(report.padding) + " (" +
         padding_percent(report) + " %), " + std::to_string(report.segments) + " segments of at most " +
         std::to_string(report.largest_segment) + " elements" + (report.reason.empty() ? "" : "; " + report.reason);
}

std::string to_json(const LayoutReport& report) {
  nlohmann::ordered_json json{{"policy", name(report.policy)},
                              {"reason", report.reason},
                              {"payload", report.payload},
                              {"padding", report.padding},
                              {"segments", report.segments},
                              {"largest_segment", report.largest_segment},
                              {"mean_segment", report.mean_segment},
                              {"overhead", report.overhead},
                              {"owners", nlohmann::ordered_json::array()}};
  for (const GlobalLayout::Owners& owners : report.owners)
    json["owners"].push_back({owners.first, owners.last});
  return json.dump();
}

} // namespace ostraka::layout
