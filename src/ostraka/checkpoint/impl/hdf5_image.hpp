// SPDX-License-Identifier: Apache-2.0
// A file that HDF5 writes into memory, so that HDF5 meets no disk: when one of its own writes fails, closing the file
// fails as well, and the end of the program touches what is freed. What it did not write has no memory.
#pragma once

#include <ostraka/checkpoint/impl/hdf5.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>

namespace ostraka::checkpoint::impl {

class Hdf5Image {
public:
  static constexpr std::int64_t page_bytes = 4096;
  using Page = std::array<std::byte, page_bytes>;

  Hdf5Image();
  ~Hdf5Image();
  Hdf5Image(const Hdf5Image&) = delete;
  Hdf5Image& operator=(const Hdf5Image&) = delete;

  /// A file created with these properties goes here. Negative: HDF5's failure.
  herr_t use_in(hid_t access_properties);

  /// Writes all at once to `path`, which is made or overwritten. INPUT_OUTPUT, as File.
  void write(const std::string& path);

  // For HDF5.
  void clear();
  void read(std::int64_t offset, std::byte* to, std::int64_t bytes) const;
  void write(std::int64_t offset, const std::byte* from, std::int64_t bytes);
  void resize(std::int64_t bytes) { bytes_ = bytes; }
  std::int64_t bytes() const { return bytes_; }

private:
  hid_t driver_;
  std::map<std::int64_t, Page> pages_; ///< by their number
  std::int64_t bytes_ = 0;             ///< of the file
};

} // namespace ostraka::checkpoint::impl
