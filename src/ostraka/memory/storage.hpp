// SPDX-License-Identifier: Apache-2.0
// A piece of memory with an identity: it can be released and taken again while every buffer and view on it stays valid.
// Pointers are read at use, never kept. Source: seed 000 (release_storage, reallocate_storage).
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/memory/arena.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ostraka::memory {

class OSTRAKA_API Storage {
public:
  /// Takes `bytes` (>= 0) from `arena` unless `allocate` is false. Contents undefined.
  Storage(std::shared_ptr<Arena> arena, std::int64_t bytes, Kind kind, bool allocate = true);
  /// Wraps memory of the caller, which must outlive this object; it cannot be released.
  Storage(void* data, std::int64_t bytes, runtime::Device device);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::int64_t bytes() const { return bytes_; }
  runtime::Device device() const { return device_; }
  Kind kind() const { return kind_; }
  const std::shared_ptr<Arena>& arena() const { return arena_; } ///< null for wrapped memory

  /// False only between release() and reallocate(); storage of no bytes is always allocated.
  bool is_allocated() const { return bytes_ == 0 || data_ != nullptr; }
  /// The address now; throws INVALID_STATE while released.
  std::byte* data() const;

  /// Both do nothing when already in that state. Throw INVALID_STATE on wrapped memory.
  void release();
  void reallocate();

private:
  std::shared_ptr<Arena> arena_;
  std::int64_t bytes_;
  Kind kind_;
  runtime::Device device_;
  Arena::Block block_;
  std::byte* data_ = nullptr;
};

} // namespace ostraka::memory
