// SPDX-License-Identifier: Apache-2.0
// What a layout costs and who owns what.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/layout/global_layout.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ostraka::layout {

/// Elements, unless the name says otherwise.
struct LayoutReport {
  Policy policy;
  std::string reason;
  std::int64_t payload;
  std::int64_t padding;
  int segments;
  std::int64_t largest_segment;
  double mean_segment;
  /// What the largest segment costs everybody, relative to the payload: largest x segments / payload - 1.
  double overhead;
  std::vector<GlobalLayout::Owners> owners; ///< per tensor
};

OSTRAKA_API LayoutReport report(const GlobalLayout& layout); ///< pure arithmetic

/// One line: policy, payload, padding, segments, why.
OSTRAKA_API std::string to_text(const LayoutReport& report);

/// One JSON object with the members of LayoutReport; owners as [first, last] pairs.
OSTRAKA_API std::string to_json(const LayoutReport& report);

} // namespace ostraka::layout
