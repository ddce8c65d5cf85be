// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/base/recycle.hpp>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

namespace ostraka::memory {

/// First-fit allocation of offsets inside [0, capacity). The result depends only on the order of the calls, so that
/// ranks with equal program order get equal offsets. Bytes.
class OSTRAKA_API FreeList {
public:
  explicit FreeList(std::int64_t capacity = 0);

  /// The lowest offset at which `bytes` (> 0) fit, or nothing. Pass sizes rounded to the wanted alignment.
  std::optional<std::int64_t> allocate(std::int64_t bytes);
  /// Gives a range back; joins it with free neighbours.
  void release(std::int64_t offset, std::int64_t bytes);

  /// Adds `bytes` at the end.
  void extend(std::int64_t bytes);
  /// Takes the free range that ends at the capacity away; returns its bytes.
  std::int64_t shrink();
  std::int64_t capacity() const { return capacity_; }
  /// Bytes of the free range that ends at the capacity.
  std::int64_t trailing() const;

  bool is_all_free() const;

private:
  std::int64_t capacity_;
  using Recycled = Recycling<std::pair<const std::int64_t, std::int64_t>>;
  std::map<std::int64_t, std::int64_t, std::less<>, Recycled> free_; ///< offset -> bytes
};

} // namespace ostraka::memory
