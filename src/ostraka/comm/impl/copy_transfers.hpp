// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/impl/reduce.hpp>
#include <ostraka/comm/transfer.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ostraka::comm::impl {

/// Copies what `sends` from `in` have for rank `receiver` to where `receives` into `out` want it from rank `sender`, in
/// order; the two lists may be cut differently. Returns the number of elements, which ends with the shorter list.
inline std::int64_t copy_transfers(const std::byte* in, std::span<const Transfer> sends, int receiver, std::byte* out,
                                   std::span<const Transfer> receives, int sender, std::int64_t width) {
  std::size_t send = 0, receive = 0;
  std::int64_t sent = 0, received = 0, total = 0;
  while (true) {
    while (send < sends.size() && (sends[send].peer != receiver || sent == sends[send].count))
      ++send, sent = 0;
    while (receive < receives.size() && (receives[receive].peer != sender || received == receives[receive].count))
      ++receive, received = 0;
    if (send == sends.size() || receive == receives.size())
      return total;
    const std::int64_t count = std::min(sends[send].count - sent, receives[receive].count - received);
    std::byte* to = out + (receives[receive].offset + received) * width;
    const std::byte* from = in + (sends[send].offset + sent) * width;
    if (to != from)
      copy_bytes(from, to, count * width);
    sent += count;
    received += count;
    total += count;
  }
}

} // namespace ostraka::comm::impl
