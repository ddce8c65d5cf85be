// SPDX-License-Identifier: Apache-2.0
// Reads and writes memory of hosts and of devices.
#pragma once

#include "elements.hpp"
#include <ostraka/memory/device_arena.hpp>
#include <ostraka/memory/storage.hpp>
#include <ostraka/runtime/device.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

namespace ostraka::test {

inline std::vector<std::byte> bytes_at(const void* data, std::int64_t bytes) {
  std::vector<std::byte> result(static_cast<std::size_t>(bytes));
  const bool is_device = bytes > 0 && runtime::is_device_memory(data);
  runtime::copy_now(is_device ? runtime::Device::cuda : runtime::Device::host, data, result.data(), bytes);
  return result;
}

/// Elements of an array of `dtype`, wherever it is, after everything that the compute stream has.
inline std::vector<double> elements_at(const void* data, std::int64_t count, DType dtype) {
  return elements(bytes_at(data, count * width_of(dtype)).data(), count, dtype);
}

inline void write_at(void* data, const void* from, std::int64_t bytes) {
  const bool is_device = bytes > 0 && runtime::is_device_memory(data);
  runtime::copy_now(is_device ? runtime::Device::cuda : runtime::Device::host, from, data, bytes);
}

/// Zeroed memory that a caller could have, on `device`.
class CallerMemory {
public:
  CallerMemory(runtime::Device device, std::int64_t bytes)
      : storage_(std::make_shared<memory::Storage>(memory::make_arena(device), std::max<std::int64_t>(bytes, 1),
                                                   memory::Kind::other)),
        bytes_(bytes) {
    fill(std::byte{0});
  }

  std::byte* data() const { return storage_->data(); }
  std::vector<std::byte> contents() const { return bytes_at(data(), bytes_); }
  void fill(std::byte value) const {
    const std::vector<std::byte> all(static_cast<std::size_t>(bytes_), value);
    write_at(data(), all.data(), bytes_);
  }

private:
  std::shared_ptr<memory::Storage> storage_;
  std::int64_t bytes_;
};

} // namespace ostraka::test
