// SPDX-License-Identifier: Apache-2.0
// Files by position. Every error names the path and what the system said.
#pragma once

#include "progress.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ostraka::tool {

/// Bytes that a command holds of each file at a time.
inline constexpr std::int64_t block_bytes = std::int64_t{4} << 20;

/// Calls body(offset, block) for the blocks of `bytes`, parts of `buffer`, which has block_bytes; offset in bytes.
template <class Body>
void for_each_block(std::int64_t bytes, std::vector<std::byte>& buffer, Progress& progress, Body&& body) {
  for (std::int64_t offset = 0; offset < bytes; offset += block_bytes) {
    const auto block = std::span(buffer).first(static_cast<std::size_t>(std::min(block_bytes, bytes - offset)));
    body(offset, block);
    progress.add(static_cast<std::int64_t>(block.size()));
  }
}

/// An open file; closed by the destructor. Throws INPUT_OUTPUT.
class File {
public:
  enum class Access { read, write };

  File(std::filesystem::path path, Access access);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::filesystem::path& path() const noexcept { return path_; }
  /// In bytes.
  std::int64_t size() const noexcept { return size_; }

  /// Fills `bytes` from `offset` on; Damage that names `what` where the file ends before.
  void read(std::int64_t offset, std::span<std::byte> bytes, std::string_view what) const;
  void write(std::int64_t offset, std::span<const std::byte> bytes) const;
  /// Returns when the bytes are on the disk.
  void sync() const;

private:
  [[noreturn]] void fail_with_errno(std::string_view verb) const;

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::int64_t size_ = 0;
};

/// A file that appears whole or not at all: written beside its place, then renamed to it. Without commit() nothing
/// stays.
class Replacement {
public:
  /// INVALID_ARGUMENT when `destination` exists and `force` is not set.
  Replacement(std::filesystem::path destination, bool force);
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;
  ~Replacement();

  /// Where to write: a file that exists and is empty.
  const std::filesystem::path& path() const noexcept { return partial_; }
  /// Syncs, renames, syncs the folder.
  void commit();

private:
  std::filesystem::path destination_, partial_;
  bool is_committed_ = false;
};

} // namespace ostraka::tool
