// SPDX-License-Identifier: Apache-2.0
// FNV-1a over bytes: compared between ranks to see that they agree. Not for security.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

namespace ostraka {

class Hash {
public:
  Hash& bytes(const void* data, std::size_t count) {
    const auto* byte = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < count; ++i)
      value_ = (value_ ^ byte[i]) * 0x100000001b3ull;
    return *this;
  }

  template <class T>
  requires std::is_arithmetic_v<T> || std::is_enum_v<T> Hash& add(T value) { return bytes(&value, sizeof value); }

  Hash& add(std::string_view text) { return add(text.size()).bytes(text.data(), text.size()); }

  /// The hash of everything added so far; the sign bit is clear so that it travels as a non-negative int64.
  std::int64_t value() const { return static_cast<std::int64_t>(value_ >> 1); }

private:
  std::uint64_t value_ = 0xcbf29ce484222325ull;
};

} // namespace ostraka
