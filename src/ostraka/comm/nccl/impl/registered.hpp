// SPDX-License-Identifier: Apache-2.0
// Memory that NCCL has allocated, and its windows on it.
#pragma once

#include <ostraka/memory/storage.hpp>

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace ostraka::comm::nccl {

/// One allocation, kept as long as an arena or a window uses it.
struct Allocation {
  explicit Allocation(std::int64_t bytes);
  ~Allocation();
  Allocation(const Allocation&) = delete;
  Allocation& operator=(const Allocation&) = delete;

  std::byte* data = nullptr;
  std::int64_t bytes;
};

/// In which `storage` lies now; null: in none.
std::shared_ptr<Allocation> allocation_of(const memory::Storage& storage);

/// What a communicator has registered. NCCL gives no window (null) where it cannot use one.
struct Window {
  std::shared_ptr<Allocation> memory;
  ncclWindow_t window = nullptr;
};

} // namespace ostraka::comm::nccl
