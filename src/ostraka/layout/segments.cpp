// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/segments.hpp>

#include <algorithm>

namespace ostraka::layout {

Segments Segments::equal(int count, std::int64_t length) {
  Segments segments;
  segments.append(count, length);
  return segments;
}

Segments Segments::even(int count, std::int64_t size) {
  Segments segments;
  segments.append(size % count, size / count + 1);
  segments.append(count - size % count, size / count);
  return segments;
}

void Segments::append(std::int64_t count, std::int64_t length) {
  expect(count >= 0 && length >= 0, Status::INVALID_ARGUMENT, "segments: expected a count and a length >= 0, found ",
         count, " of ", length);
  if (count == 0)
    return;
  const int total = narrow(add(count_, count, "segments: number"), "segments: number");
  const std::int64_t size = add(size_, multiply(count, length, "segments: size"), "segments: size");
  if (runs_.empty() || runs_.back().length != length)
    runs_.push_back({count_, size_, length});
  count_ = total;
  size_ = size;
}

std::int64_t Segments::largest() const {
  std::int64_t largest = 0;
  for (const Run& run : runs_)
    largest = std::max(largest, run.length);
  return largest;
}

std::int64_t Segments::begin(std::int64_t index) const {
  if (index == count_)
    return size_;
  const auto next = std::upper_bound(runs_.begin(), runs_.end(), index,
                                     [](std::int64_t value, const Run& run) { return value < run.first; });
  const Run& run = *std::prev(next);
  return run.begin + (index - run.first) * run.length;
}

int Segments::find(std::int64_t offset) const {
  // The last run that begins at or before the offset: runs of empty segments stand before the one that holds it.
  const auto next = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                     [](std::int64_t value, const Run& run) { return value < run.begin; });
  const Run& run = *std::prev(next);
  return static_cast<int>(run.first + (offset - run.begin) / run.length);
}

} // namespace ostraka::layout
