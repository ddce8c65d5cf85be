// SPDX-License-Identifier: Apache-2.0
// Where storage lives. An arena is created collectively by a communicator back end (comm/backend.hpp); placing storage
// inside it is local arithmetic that depends on program order only.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/memory/free_list.hpp>
#include <ostraka/runtime/stream.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace ostraka::memory {

/// What storage is for; statistics are kept by kind.
enum class Kind : std::int32_t { other = 0, parameters = 1, gradients = 2, optimizer_state = 3, transient = 4 };
constexpr int num_kinds = 5;

/// Bytes of one kind.
struct Usage {
  std::int64_t in_use = 0;
  std::int64_t peak = 0;
};

class OSTRAKA_API Arena {
public:
  /// Every block starts at a multiple of this many bytes.
  static constexpr std::int64_t alignment = 64;

  struct Block {
    std::byte* data = nullptr;
    std::int64_t bytes = 0; ///< rounded up to the alignment
    int region = -1;
    std::int64_t offset = 0;
  };

  virtual ~Arena() = default;

  virtual runtime::Device device() const = 0;

  /// `bytes` > 0. Grows the arena when no free block fits: in a steady step one always does.
  /// Throws OUT_OF_MEMORY naming the size.
  Block allocate(std::int64_t bytes, Kind kind);
  void release(const Block& block, Kind kind);

  const Usage& usage(Kind kind) const { return usage_[static_cast<int>(kind)]; }
  /// Bytes taken from the system.
  std::int64_t reserved() const { return reserved_; }
  /// How often the arena asked the system for memory.
  int growths() const { return static_cast<int>(regions_.size()); }

protected:
  /// `bytes` of new memory, aligned; freed by the destructor of the concrete arena. Throws OUT_OF_MEMORY.
  virtual std::byte* grow(std::int64_t bytes) = 0;
  /// Overwrites with NaN patterns (OSTRAKA_CHECK).
  virtual void poison(std::byte* data, std::int64_t bytes) = 0;

private:
  struct Region {
    std::byte* data;
    FreeList free;
  };

  std::vector<Region> regions_;
  std::array<Usage, num_kinds> usage_{};
  std::int64_t reserved_ = 0;
};

/// An arena in ordinary host memory, private to this process.
OSTRAKA_API std::shared_ptr<Arena> make_host_arena();

} // namespace ostraka::memory
