// SPDX-License-Identifier: Apache-2.0
// Where storage lives. An arena is created collectively by a mesh (mesh/backend.hpp); placing storage
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
  /// Every block starts at a multiple of this many bytes, or of what the arena itself asks for.
  static constexpr std::int64_t alignment = 64;

  struct Block {
    std::byte* data = nullptr;
    std::int64_t bytes = 0; ///< rounded up to the granularity of the arena
    std::int64_t offset = 0;
  };

  virtual ~Arena() = default;

  virtual runtime::Device device() const = 0;
  /// Whether its blocks can be registered for symmetric-memory collectives (comm/nccl).
  virtual bool is_symmetric() const { return false; }

  /// `bytes` > 0, at the lowest free offset. Transient blocks have a space of their own, so that a step that starts
  /// with none of them places them as the step before did and never grows the arena. Throws OUT_OF_MEMORY naming the
  /// size.
  virtual Block allocate(std::int64_t bytes, Kind kind);
  virtual void release(const Block& block, Kind kind);
  /// Gives free memory behind the last blocks back to the system. For set-up that failed: otherwise an arena keeps what
  /// it has. Where ranks share the memory itself, nobody allocates before all have called it.
  virtual void trim();

  const Usage& usage(Kind kind) const { return usage_[static_cast<int>(kind)]; }
  /// Bytes taken from the system: the highest end of a block since trim(), of both spaces.
  virtual std::int64_t reserved() const { return spaces_[0].free.capacity() + spaces_[1].free.capacity(); }
  /// How often more was taken.
  int growths() const { return growths_; }

protected:
  explicit Arena(std::int64_t granularity = alignment) : granularity_(granularity) {}

  /// Address space for `bytes` at most, usable after commit(); given back by the destructor of the concrete arena.
  struct AddressSpace {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
  };
  virtual AddressSpace reserve() = 0;
  /// Makes the first `bytes` of an address space usable; `committed` of them are already. Throws OUT_OF_MEMORY.
  virtual void commit(const AddressSpace& space, std::int64_t committed, std::int64_t bytes) = 0;
  /// Undoes commit() beyond the first `kept` bytes, as far as the system lets it.
  virtual void decommit(const AddressSpace& space, std::int64_t kept, std::int64_t committed) = 0;
  /// Counts `bytes` more (or less) as in use, for arenas that place blocks themselves.
  void count(Kind kind, std::int64_t bytes);
  /// Overwrites with NaN patterns (OSTRAKA_CHECK).
  virtual void poison(std::byte* data, std::int64_t bytes) = 0;

private:
  struct Space {
    AddressSpace addresses;
    FreeList free;
  };
  Space& space(Kind kind) { return spaces_[kind == Kind::transient ? 1 : 0]; }
  void grow(Space& space, std::int64_t bytes);

  std::int64_t granularity_; ///< a multiple of the alignment
  std::array<Space, 2> spaces_;
  std::array<Usage, num_kinds> usage_{};
  int growths_ = 0;
};

/// An arena in ordinary host memory, private to this process.
OSTRAKA_API std::shared_ptr<Arena> make_host_arena();

} // namespace ostraka::memory
