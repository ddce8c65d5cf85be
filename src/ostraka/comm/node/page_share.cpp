// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/comm/node/page_share.hpp>

#include <algorithm>

namespace ostraka::comm::node {

using layout::Range;

Range PageShare::take(std::int64_t begin, std::int64_t bytes) {
  if (bytes == 0)
    return {begin, begin};
  const std::int64_t end = round_up(begin + bytes, page_, "shared memory: bytes");
  const std::int64_t first = round_up(begin, page_, "shared memory: bytes");
  if (end > first)
    taken_.push_back({first, end});
  return {begin / page_ * page_, end};
}

Range PageShare::take_evenly(std::int64_t space, std::int64_t block, std::int64_t bytes) {
  std::int64_t& known = known_[space];
  const std::int64_t begin = space + known, count = block + bytes - begin;
  if (count <= 0)
    return {begin, begin};
  const std::int64_t part = round_up((count + size_ - 1) / size_, page_, "shared memory: bytes");
  const std::int64_t mine = std::min(rank_ * part, count);
  known = round_up(known + count, page_, "shared memory: bytes");
  return take(begin + mine, std::min(part, count - mine));
}

void PageShare::drop(std::int64_t space, std::int64_t begin, std::int64_t end) {
  std::erase_if(taken_, [&](const Range& pages) { return pages.begin >= begin && pages.end <= end; });
  std::int64_t& known = known_[space];
  known = std::min(known, begin - space);
}

std::int64_t PageShare::taken() const {
  std::int64_t bytes = 0;
  for (const Range& pages : taken_)
    bytes += pages.size();
  return bytes;
}

} // namespace ostraka::comm::node
