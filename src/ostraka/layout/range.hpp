// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>

namespace ostraka::layout {

/// A half-open range [begin, end) of elements.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;

  std::int64_t size() const { return end - begin; }
  bool contains(const Range& other) const { return begin <= other.begin && other.end <= end; }
  bool operator==(const Range&) const = default;
};

/// The common part; empty ranges have size 0.
inline Range intersect(const Range& a, const Range& b) {
  const std::int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

} // namespace ostraka::layout
