// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/hash.hpp>
#include <ostraka/buffer/hash.hpp>
#include <ostraka/runtime/device.hpp>

#include <cstddef>
#include <vector>

namespace ostraka::buffer {

namespace {

std::int64_t hash_of(const DBuffer& buffer, const void* data, std::int64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  const runtime::Device device = buffer.storage()->device();
  if (device == runtime::Device::host)
    return Hash().bytes(data, size).value();
  std::vector<std::byte> copy(size);
  runtime::copy_now(device, data, copy.data(), bytes);
  return Hash().bytes(copy.data(), size).value();
}

} // namespace

std::int64_t hash_of(const DBuffer& buffer) { return hash_of(buffer, buffer.data(), buffer.bytes()); }

std::int64_t hash_of(const DBuffer& buffer, int index) {
  const TensorRange range = buffer.tensor_range(index);
  return hash_of(buffer, range.data, range.count * size_of(buffer.dtype()));
}

} // namespace ostraka::buffer
