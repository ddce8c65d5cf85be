// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include <cstdlib>
#include <new>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)

namespace ostraka::test {
std::int64_t allocations() { return 0; }
bool counts_allocations() { return false; }
} // namespace ostraka::test

#else

namespace {

std::int64_t count = 0;

void* take(std::size_t bytes, std::size_t alignment) {
  ++count;
  const std::size_t size = bytes == 0 ? 1 : bytes;
  void* memory = alignment == 0 ? std::malloc(size)
                                : std::aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
  if (memory == nullptr)
    throw std::bad_alloc();
  return memory;
}

} // namespace

namespace ostraka::test {
std::int64_t allocations() { return count; }
bool counts_allocations() { return true; }
} // namespace ostraka::test

void* operator new(std::size_t bytes) { return take(bytes, 0); }
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return take(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

#endif
