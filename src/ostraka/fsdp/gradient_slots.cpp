// SPDX-License-Identifier: Apache-2.0
#include <ostraka/fsdp/gradient_slots.hpp>

#include <deque>

namespace ostraka::fsdp {

void GradientSlots::reserve(std::int64_t bytes, int needed, int at_once) {
  const int slots = ring_.reserve(bytes, needed, at_once);
  slots_.clear();
  std::deque<memory::Storage> first_use; // given back at once
  for (int slot = 0; slot < slots; ++slot)
    first_use.emplace_back(arena_, ring_.bytes(), memory::Kind::transient);
}

int GradientSlots::acquire(runtime::Stream& compute) {
  const int slot = ring_.next();
  if (slot == static_cast<int>(slots_.size()))
    slots_.push_back({std::make_shared<memory::Storage>(arena_, ring_.bytes(), memory::Kind::transient, false), {}});
  if (compute.device() == runtime::Device::host)
    runtime::synchronize(slots_[slot].reduced, "gradient slot: its last reduction"); // a time-out names it
  else
    compute.wait(slots_[slot].reduced);
  slots_[slot].storage->reallocate();
  ring_.bind(slot);
  return slot;
}

void GradientSlots::release(int slot, runtime::Event reduced) {
  slots_[slot].reduced = std::move(reduced);
  ring_.release(slot);
}

void GradientSlots::release_storage() {
  for (Slot& slot : slots_)
    slot.storage->release();
}

} // namespace ostraka::fsdp
