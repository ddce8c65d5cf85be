// SPDX-License-Identifier: Apache-2.0
// Memory for the copy of an asynchronous save. What one save took is kept for the next: memory that is new to the
// process, and on a virtual machine also to its host, takes far longer to touch first than to copy into.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ostraka::checkpoint::impl {

/// Used by main threads only.
class Staging {
public:
  Staging() = default;
  /// Without data where there is no room.
  explicit Staging(std::int64_t bytes);
  ~Staging() { keep(); }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  Staging& operator=(Staging&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(room_, other.room_);
    return *this;
  }

  std::byte* data() const { return data_; }
  /// Ends the use of the memory, which stays for the next.
  void keep() noexcept;
  /// Gives what is kept back to the system.
  static void free_kept() noexcept;

private:
  std::byte* data_ = nullptr;
  std::int64_t room_ = 0;
};

} // namespace ostraka::checkpoint::impl
