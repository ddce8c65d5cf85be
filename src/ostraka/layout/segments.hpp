// SPDX-License-Identifier: Apache-2.0
// Where a flat buffer is cut, one segment per rank. Kept as runs of equal segments, so that memory does not grow with
// the number of ranks where a formula does.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/base/inline_vector.hpp>
#include <ostraka/layout/range.hpp>

#include <cstdint>
#include <span>

namespace ostraka::layout {

class OSTRAKA_API Segments {
public:
  /// `count` segments of `length` elements each.
  static Segments equal(int count, std::int64_t length);
  /// `size` elements in `count` > 0 segments that differ by one element at most, the larger ones first.
  static Segments even(int count, std::int64_t size);

  /// No segments; append to it.
  Segments() = default;
  /// Adds `count` segments of `length` elements behind those that are there. Throws INVALID_ARGUMENT on negative
  /// numbers and sizes beyond 64 bits or numbers of segments beyond 32.
  void append(std::int64_t count, std::int64_t length);

  int count() const { return count_; }
  /// Elements of all segments.
  std::int64_t size() const { return size_; }
  std::int64_t largest() const;
  bool are_equal() const { return runs_.size() <= 1; }

  /// Begin of segment `index`, 0 <= index <= count; the last one gives size(). O(log runs).
  std::int64_t begin(std::int64_t index) const;
  Range range(std::int64_t index) const { return {begin(index), begin(index + 1)}; }
  /// The segment that holds element `offset`, 0 <= offset < size. O(log runs).
  int find(std::int64_t offset) const;

  /// Consecutive segments of one length.
  struct Run {
    std::int64_t first; ///< segment
    std::int64_t begin; ///< element
    std::int64_t length;

    bool operator==(const Run&) const = default;
  };
  std::span<const Run> runs() const { return runs_; }

  bool operator==(const Segments&) const = default;

private:
  InlineVector<Run, 2> runs_;
  int count_ = 0;
  std::int64_t size_ = 0;
};

} // namespace ostraka::layout
