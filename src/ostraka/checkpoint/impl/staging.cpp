// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/checkpoint/impl/staging.hpp>

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace ostraka::checkpoint::impl {

namespace {

constexpr std::int64_t huge_page = 2 << 20;

struct Memory {
  std::byte* data = nullptr;
  std::int64_t room = 0;
};
Memory kept; // not freed at the end, when a save may still hold its own

} // namespace

Staging::Staging(std::int64_t bytes) : room_(std::max(huge_page, round_up(bytes, huge_page, "copy of what is saved"))) {
  if (room_ <= kept.room && kept.room / 2 <= room_) {
    data_ = std::exchange(kept.data, nullptr);
    room_ = std::exchange(kept.room, 0);
    return;
  }
  free_kept();
  data_ = static_cast<std::byte*>(std::aligned_alloc(huge_page, static_cast<std::size_t>(room_)));
#ifdef MADV_HUGEPAGE
  if (data_ != nullptr)
    madvise(data_, static_cast<std::size_t>(room_), MADV_HUGEPAGE); // touched first while training waits
#endif
}

void Staging::keep() noexcept {
  if (data_ == nullptr)
    return;
  free_kept();
  kept = {std::exchange(data_, nullptr), std::exchange(room_, 0)};
}

void Staging::free_kept() noexcept {
  std::free(kept.data);
  kept = {};
}

} // namespace ostraka::checkpoint::impl
