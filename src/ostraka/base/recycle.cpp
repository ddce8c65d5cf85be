// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/recycle.hpp>

#include <array>
#include <new>

namespace ostraka {

namespace {

constexpr std::size_t unit = 64, sizes = 32; ///< blocks of 1 to 32 units; larger ones are not kept
constexpr int most_kept = 64;                ///< of each size

struct Block {
  Block* next;
};

struct List {
  Block* first = nullptr;
  int count = 0;
};

// Without a destructor, as objects may end after their thread's variables.
std::array<List, sizes>& lists() {
  static thread_local constinit std::array<List, sizes> all{};
  return all;
}

std::size_t index_of(std::size_t bytes) { return (bytes + unit - 1) / unit; }

// A sanitizer sees who uses memory that was given back only if it is not used again at once.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool keeps = false;
#else
constexpr bool keeps = true;
#endif

} // namespace

void* take_recycled(std::size_t bytes) {
  const std::size_t index = index_of(bytes);
  if (index >= sizes)
    return ::operator new(bytes);
  List& list = lists()[index];
  if (list.first == nullptr)
    return ::operator new(index* unit);
  --list.count;
  Block* block = list.first;
  list.first = block->next;
  return block;
}

void recycle(void* memory, std::size_t bytes) noexcept {
  const std::size_t index = index_of(bytes);
  if (!keeps || index >= sizes || lists()[index].count == most_kept)
    return ::operator delete(memory);
  List& list = lists()[index];
  list.first = new (memory) Block{list.first};
  ++list.count;
}

} // namespace ostraka
