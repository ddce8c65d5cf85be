// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/memory/free_list.hpp>

#include <iterator>

namespace ostraka::memory {

FreeList::FreeList(std::int64_t capacity) : capacity_(capacity) {
  if (capacity > 0)
    free_.emplace(0, capacity);
}

std::optional<std::int64_t> FreeList::allocate(std::int64_t bytes) {
  for (auto range = free_.begin(); range != free_.end(); ++range) {
    const auto [offset, available] = *range;
    if (available < bytes)
      continue;
    free_.erase(range);
    if (available > bytes)
      free_.emplace(offset + bytes, available - bytes);
    return offset;
  }
  return std::nullopt;
}

void FreeList::release(std::int64_t offset, std::int64_t bytes) {
  auto next = free_.lower_bound(offset);
  const bool overlaps_next = next != free_.end() && offset + bytes > next->first;
  const bool overlaps_previous = next != free_.begin() && std::prev(next)->first + std::prev(next)->second > offset;
  expect(!overlaps_next && !overlaps_previous, Status::INTERNAL, "arena: bytes [", offset, ", ", offset + bytes,
         ") were released twice");
  auto range = free_.emplace(offset, bytes).first;
  if (next != free_.end() && offset + bytes == next->first) {
    range->second += next->second;
    free_.erase(next);
  }
  if (range != free_.begin()) {
    auto previous = std::prev(range);
    if (previous->first + previous->second == offset) {
      previous->second += range->second;
      free_.erase(range);
    }
  }
}

void FreeList::extend(std::int64_t bytes) {
  const std::int64_t end = capacity_;
  capacity_ += bytes;
  release(end, bytes);
}

std::int64_t FreeList::shrink() {
  const std::int64_t bytes = trailing();
  capacity_ -= bytes;
  if (bytes > 0)
    free_.erase(std::prev(free_.end()));
  return bytes;
}

std::int64_t FreeList::trailing() const {
  if (free_.empty())
    return 0;
  const auto& [offset, bytes] = *free_.rbegin();
  return offset + bytes == capacity_ ? bytes : 0;
}

bool FreeList::is_all_free() const {
  return capacity_ == 0 || (free_.size() == 1 && free_.begin()->second == capacity_);
}

} // namespace ostraka::memory
