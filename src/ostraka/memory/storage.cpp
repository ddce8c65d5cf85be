// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/memory/storage.hpp>

namespace ostraka::memory {

Storage::Storage(std::shared_ptr<Arena> arena, std::int64_t bytes, Kind kind, bool allocate)
    : arena_(std::move(arena)), bytes_(bytes), kind_(kind), device_(arena_->device()) {
  if (allocate)
    reallocate();
}

Storage::Storage(void* data, std::int64_t bytes, runtime::Device device)
    : bytes_(bytes), kind_(Kind::other), device_(device), data_(static_cast<std::byte*>(data)) {}

Storage::~Storage() {
  if (arena_ && block_.data != nullptr)
    arena_->release(block_, kind_);
}

std::byte* Storage::data() const {
  expect(is_allocated(), Status::INVALID_STATE, "storage: its ", bytes_,
         " bytes are released; reallocate_storage brings them back");
  return data_;
}

void Storage::release() {
  expect(arena_ != nullptr, Status::INVALID_STATE, "release_storage: this storage wraps memory of the caller");
  if (data_ == nullptr)
    return;
  data_ = nullptr;
  if (arena_->is_symmetric()) // what is registered stays where it is, on all ranks alike
    return;
  arena_->release(block_, kind_);
  block_ = {};
}

void Storage::reallocate() {
  expect(arena_ != nullptr, Status::INVALID_STATE, "reallocate_storage: this storage wraps memory of the caller");
  if (data_ != nullptr || bytes_ == 0)
    return;
  if (block_.data == nullptr)
    block_ = arena_->allocate(bytes_, kind_);
  data_ = block_.data;
}

} // namespace ostraka::memory
