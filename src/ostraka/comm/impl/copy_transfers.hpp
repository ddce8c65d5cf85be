// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/impl/reduce.hpp>
#include <ostraka/comm/transfer.hpp>

#include <algorithm>
#include <cstddef>
#include <span>

namespace ostraka::comm::impl {

/// copy(from, to, bytes) is called for each run that `sends` from `in` have for rank `receiver`, with where `receives`
/// into `out` want it from rank `sender`, in order; the two lists may be cut differently. Returns the number of
/// elements, which ends with the shorter list.
template <class Copy>
std::int64_t copy_transfers(const std::byte* in, std::span<const Transfer> sends, int receiver, std::byte* out,
                            std::span<const Transfer> receives, int sender, std::int64_t width, Copy&& copy) {
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
      copy(from, to, count * width);
    sent += count;
    received += count;
    total += count;
  }
}

/// The same with plain copies in the memory of the host.
inline std::int64_t copy_transfers(const std::byte* in, std::span<const Transfer> sends, int receiver, std::byte* out,
                                   std::span<const Transfer> receives, int sender, std::int64_t width) {
  return copy_transfers(in, sends, receiver, out, receives, sender, width,
                        [](const std::byte* from, std::byte* to, std::int64_t bytes) { copy_bytes(from, to, bytes); });
}

} // namespace ostraka::comm::impl
