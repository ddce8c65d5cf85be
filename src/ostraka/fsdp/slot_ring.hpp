// SPDX-License-Identifier: Apache-2.0
// Which of the gradient slots is next, and how many there are. Pure.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstdint>
#include <vector>

namespace ostraka::fsdp {

class OSTRAKA_API SlotRing {
public:
  /// `most` slots that hold `most_bytes` together, but one at least.
  SlotRing(int most, std::int64_t most_bytes) : most_(most), most_bytes_(most_bytes), count_(most) {}

  /// Every slot is at least `bytes` large, and none exists. Returns how many a step may have at the same time: `needed`
  /// or the ring if that is smaller, but at least `at_once` that are bound together.
  int reserve(std::int64_t bytes, int needed, int at_once);

  /// The slot that is next: a new one, size(), while the ring is not complete or all are bound.
  int next() const;
  void bind(int slot);
  void release(int slot) { is_bound_[static_cast<std::size_t>(slot)] = 0; }

  int size() const { return static_cast<int>(is_bound_.size()); }
  std::int64_t bytes() const { return bytes_; } ///< of a slot
  int count() const { return count_; }          ///< of the ring

private:
  int most_;
  std::int64_t most_bytes_;
  int count_;
  std::int64_t bytes_ = 0;
  std::vector<char> is_bound_; ///< [slot]
  int next_ = 0;
};

} // namespace ostraka::fsdp
