// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace ostraka::runtime {

enum class Device : std::int32_t { host = 0, cuda = 1 };

/// Whether the number is one of them.
constexpr bool is_device(std::int32_t number) { return number == 0 || number == 1; }

/// "host" or "cuda".
constexpr const char* name(Device device) { return device == Device::host ? "host" : "cuda"; }

/// Where a kernel runs: what launch() hands to its body.
struct Execution {
  Device device = Device::host;
  void* native = nullptr; ///< cudaStream_t on cuda, unused on hosts
};

} // namespace ostraka::runtime
