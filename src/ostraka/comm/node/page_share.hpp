// SPDX-License-Identifier: Apache-2.0
// Which pages of a file each of the ranks that map it takes from the system. Pure.
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/layout/range.hpp>

#include <cstdint>
#include <map>
#include <vector>

namespace ostraka::comm::node {

/// The even part of rank `rank` of `size` of `bytes` bytes that all use: the parts cover them once.
inline layout::Range part_of(std::int64_t bytes, int rank, int size) {
  return {bytes * rank / size, bytes * (rank + 1) / size};
}

/// Of one rank; bytes from the begin of the file.
class OSTRAKA_API PageShare {
public:
  PageShare(int rank, int size, std::int64_t page) : rank_(rank), size_(size), page_(page) {}

  /// The pages of `bytes` from `begin` on, which this rank takes: a page that it shares with others counts for the rank
  /// that has its first byte.
  layout::Range take(std::int64_t begin, std::int64_t bytes);
  /// This rank's part of the pages up to the end of a block that are new since the last call; all ranks take a part.
  /// `space` is the begin of the range of addresses in which the block stands.
  layout::Range take_evenly(std::int64_t space, std::int64_t block, std::int64_t bytes);
  /// Pages between the two are gone.
  void drop(std::int64_t space, std::int64_t begin, std::int64_t end);

  /// Bytes of the pages that this rank has taken.
  std::int64_t taken() const;

private:
  int rank_;
  int size_;
  std::int64_t page_;
  std::vector<layout::Range> taken_;
  std::map<std::int64_t, std::int64_t> known_; ///< [space]: bytes of it that take_evenly() has seen
};

} // namespace ostraka::comm::node
