// SPDX-License-Identifier: Apache-2.0
// What hosts write to buffers, wherever those lie. On devices everything waits for the compute stream.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/fsdp/initial_values.hpp>
#include <ostraka/runtime/device.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ostraka::fsdp::impl {

/// Has `fill` write this rank's elements of tensor `index`, if there are any, in memory of the host.
inline void fill_tensor(const buffer::DBuffer& buffer, int index, const Fill& fill) {
  const buffer::TensorRange own = buffer.tensor_range(index);
  if (own.count == 0)
    return;
  const runtime::Device device = buffer.storage()->device();
  if (device == runtime::Device::host)
    return fill(own.offset, own.count, own.data, buffer.dtype());
  const std::int64_t bytes = own.count * size_of(buffer.dtype());
  std::vector<std::byte> values(static_cast<std::size_t>(bytes));
  fill(own.offset, own.count, values.data(), buffer.dtype());
  runtime::copy_now(device, values.data(), own.data, bytes);
}

} // namespace ostraka::fsdp::impl
