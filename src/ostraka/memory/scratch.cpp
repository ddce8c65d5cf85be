// SPDX-License-Identifier: Apache-2.0
#include <ostraka/memory/scratch.hpp>
#include <ostraka/runtime/device.hpp>

namespace ostraka::memory {

Scratch::Use::Use(Scratch& scratch, const std::shared_ptr<Arena>& arena, std::int64_t bytes, runtime::Stream& stream)
    : scratch_(scratch), stream_(stream) {
  const auto& present = scratch.storage_;
  if (present != nullptr && present->arena() == arena && present->bytes() >= bytes) {
    stream.wait(scratch.last_use_);
    return;
  }
  scratch.release();
  scratch.storage_ = std::allocate_shared<Storage>(Recycling<Storage>(), arena, bytes, Kind::transient);
  if (arena->device() != runtime::Device::host) // memory changes hands in the order of the compute stream
    stream.wait(runtime::compute_stream(arena->device())->record());
}

Scratch::Use::~Use() { scratch_.last_use_ = stream_.record(); }

void Scratch::release() {
  runtime::synchronize(last_use_, "scratch memory: its last user");
  if (storage_ != nullptr)
    storage_->release(); // now, whoever still holds the storage of a complete operation
  storage_.reset();
}

} // namespace ostraka::memory
