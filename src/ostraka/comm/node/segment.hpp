// SPDX-License-Identifier: Apache-2.0
// Memory that the processes of a node share: files in /dev/shm whose names are gone before the first use, so nothing
// stays behind whatever happens. Source: design section 3, "Node-shared memory".
#pragma once

#include <ostraka/base/error.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::comm::node {

/// A file mapped into this process. Pages exist once populate() has succeeded; others must not be touched.
class Segment {
public:
  /// The owner's side: `bytes` of addresses, no pages yet. It has a name until unlink(). Throws OUT_OF_MEMORY.
  static Segment create(std::int64_t bytes);
  /// A peer's side, which may populate(), too. Throws OUT_OF_MEMORY.
  static Segment open(const std::string& name, std::int64_t bytes);

  Segment() = default;
  Segment(Segment&& other) noexcept { swap(other); }
  Segment& operator=(Segment&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Segment();

  const std::string& name() const { return name_; }
  std::byte* data() const { return data_; }
  std::int64_t bytes() const { return bytes_; }

  /// Takes zero-filled pages for [begin, end) from the system, on the caller's memory domain. Throws
  /// OUT_OF_MEMORY where /dev/shm is full.
  void populate(std::int64_t begin, std::int64_t end);
  /// Gives the pages of [begin, end), whole ones, back to the system. Nobody may touch them afterwards.
  void discard(std::int64_t begin, std::int64_t end);
  void unlink();
  /// Ends populate() of this process, since files are few; the mapping stays.
  void close_file();

private:
  void map();
  void swap(Segment& other) noexcept;

  std::string name_;
  int file_ = -1;
  std::byte* data_ = nullptr;
  std::int64_t bytes_ = 0;
};

/// Every rank of `group` contributes a segment of `bytes` (none for 0), the first `populated` of which have pages, and
/// maps those of all. Collective; a failure anywhere throws OUT_OF_MEMORY everywhere.
std::vector<Segment> share(MPI_Comm group, std::int64_t bytes, std::int64_t populated = 0);

/// One segment of rank 0, which all map and may populate. Likewise collective.
Segment share_one(MPI_Comm group, std::int64_t bytes, std::int64_t populated = 0);

/// Bytes of a page.
std::int64_t page();

/// Throws on all ranks the error of the lowest one that passes any, as OUT_OF_MEMORY with its text. Collective.
void agree_on_memory(MPI_Comm group, const std::optional<Error>& error);

/// Bytes that /dev/shm has free.
std::int64_t free_shared_memory();

} // namespace ostraka::comm::node
