// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/gradient_slots.hpp>

#include <algorithm>
#include <deque>

namespace ostraka::fsdp {

void GradientSlots::reserve(std::int64_t bytes, int needed, int at_once) {
  bytes_ = std::max(bytes_, bytes);
  if (bytes_ > 0)
    count_ = static_cast<int>(std::clamp<std::int64_t>(most_bytes_ / bytes_, 1, most_));
  slots_.clear();
  next_ = 0;
  std::deque<memory::Storage> first_use; // given back at once
  for (int slot = 0; slot < std::min(needed, std::max(count_, at_once)); ++slot)
    first_use.emplace_back(arena_, bytes_, memory::Kind::transient);
}

int GradientSlots::acquire(runtime::Stream& compute) {
  const int size = static_cast<int>(slots_.size());
  int slot = size;
  if (size >= count_)
    for (int i = 0; i < size && slot == size; ++i)
      if (const int candidate = (next_ + i) % size; !slots_[candidate].is_bound)
        slot = candidate;
  if (slot == size)
    slots_.push_back({std::make_shared<memory::Storage>(arena_, bytes_, memory::Kind::transient, false), {}, false});
  if (compute.device() == runtime::Device::host)
    runtime::synchronize(slots_[slot].reduced, "gradient slot: its last reduction"); // a time-out names it
  else
    compute.wait(slots_[slot].reduced);
  slots_[slot].storage->reallocate();
  slots_[slot].is_bound = true;
  next_ = (slot + 1) % std::max(count_, static_cast<int>(slots_.size()));
  return slot;
}

void GradientSlots::release(int slot, runtime::Event reduced) {
  slots_[slot].reduced = std::move(reduced);
  slots_[slot].is_bound = false;
}

void GradientSlots::release_storage() {
  for (Slot& slot : slots_)
    slot.storage->release();
}

} // namespace ostraka::fsdp
