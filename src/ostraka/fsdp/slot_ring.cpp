// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/slot_ring.hpp>

#include <algorithm>

namespace ostraka::fsdp {

int SlotRing::reserve(std::int64_t bytes, int needed, int at_once) {
  bytes_ = std::max(bytes_, bytes);
  if (bytes_ > 0)
    count_ = static_cast<int>(std::clamp<std::int64_t>(most_bytes_ / bytes_, 1, most_));
  is_bound_.clear();
  next_ = 0;
  return std::min(needed, std::max(count_, at_once));
}

int SlotRing::next() const {
  for (int i = 0; size() >= count_ && i < size(); ++i)
    if (const int candidate = (next_ + i) % size(); is_bound_[static_cast<std::size_t>(candidate)] == 0)
      return candidate;
  return size();
}

void SlotRing::bind(int slot) {
  if (slot == size())
    is_bound_.push_back(0);
  is_bound_[static_cast<std::size_t>(slot)] = 1;
  next_ = (slot + 1) % std::max(count_, size());
}

} // namespace ostraka::fsdp
