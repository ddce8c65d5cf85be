// SPDX-License-Identifier: Apache-2.0
// Memory for objects that come and go with every operation: what is given back waits for the next one of its size, so
// that a steady state asks the system for nothing.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstddef>

namespace ostraka {

/// `bytes` bytes, aligned for every type without an alignment of its own. Of this thread's, where it has some.
OSTRAKA_API void* take_recycled(std::size_t bytes);
/// `bytes` is what they were taken with, by any thread.
OSTRAKA_API void recycle(void* memory, std::size_t bytes) noexcept;

/// The same as an allocator.
template <class T>
struct Recycling {
  using value_type = T;

  Recycling() = default;
  template <class Other>
  Recycling(const Recycling<Other>&) noexcept {}

  T* allocate(std::size_t count) { return static_cast<T*>(take_recycled(count * sizeof(T))); }
  void deallocate(T* memory, std::size_t count) noexcept { recycle(memory, count * sizeof(T)); }
  template <class Other>
  bool operator==(const Recycling<Other>&) const noexcept {
    return true;
  }
};

} // namespace ostraka
