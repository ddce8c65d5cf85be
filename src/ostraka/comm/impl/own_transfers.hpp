// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostraka/comm/transfer.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace ostraka::comm::impl {

/// What a rank sends to itself, copied element by element in order; the two lists may be cut differently.
inline void copy_own(int rank, const std::byte* in, std::span<const Transfer> sends, std::byte* out,
                     std::span<const Transfer> receives, std::int64_t width) {
  std::size_t send = 0, receive = 0;
  std::int64_t sent = 0, received = 0;
  while (true) {
    while (send < sends.size() && (sends[send].peer != rank || sent == sends[send].count))
      ++send, sent = 0;
    while (receive < receives.size() && (receives[receive].peer != rank || received == receives[receive].count))
      ++receive, received = 0;
    if (send == sends.size() || receive == receives.size())
      return;
    const std::int64_t count = std::min(sends[send].count - sent, receives[receive].count - received);
    std::byte* to = out + (receives[receive].offset + received) * width;
    const std::byte* from = in + (sends[send].offset + sent) * width;
    if (to != from)
      std::memcpy(to, from, static_cast<std::size_t>(count * width));
    sent += count;
    received += count;
  }
}

} // namespace ostraka::comm::impl
