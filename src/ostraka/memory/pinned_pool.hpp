// SPDX-License-Identifier: Apache-2.0
// Host memory that a GPU copies from and to, used again and again: pinning takes longer than most copies.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/memory/storage.hpp>

#include <cstdint>
#include <memory>
#include <vector>

namespace ostraka::memory {

class OSTRAKA_API PinnedPool {
public:
  PinnedPool();
  ~PinnedPool();

  /// At least `bytes` bytes of host memory, which come back to the pool with the last reference. Throws OUT_OF_MEMORY.
  std::shared_ptr<Storage> take(std::int64_t bytes);

private:
  struct Free;
  std::shared_ptr<Free> free_; ///< also held by what is out
};

} // namespace ostraka::memory
