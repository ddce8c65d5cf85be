// SPDX-License-Identifier: Apache-2.0
// Memory of the GPU in two steps, addresses and what stands behind them, and host memory that it can reach. Bytes, of
// which all but the last kind come in multiples of granularity().
#pragma once

#include <ostraka/base/export.hpp>
#include <ostraka/runtime/execution.hpp>

#include <cstddef>
#include <cstdint>

namespace ostraka::runtime::cuda {

/// What stands behind addresses.
using Handle = unsigned long long;

OSTRAKA_API std::int64_t total_memory();
OSTRAKA_API std::int64_t granularity();

/// Addresses without memory. Throws OUT_OF_MEMORY.
OSTRAKA_API std::byte* reserve(std::int64_t bytes);
OSTRAKA_API void free_addresses(std::byte* data, std::int64_t bytes) noexcept;
/// Puts memory behind addresses. Throws OUT_OF_MEMORY.
OSTRAKA_API Handle map(std::byte* data, std::int64_t bytes);
/// Takes it away, from addresses that no queued work uses.
OSTRAKA_API void unmap(std::byte* data, std::int64_t bytes, Handle handle) noexcept;

/// Queues a fill of memory with bytes `value`.
OSTRAKA_API void fill(const Execution& execution, std::byte* data, int value, std::int64_t bytes);

/// Host memory from and to which the GPU copies while hosts go on. Throws OUT_OF_MEMORY.
OSTRAKA_API std::byte* allocate_pinned(std::int64_t bytes);
OSTRAKA_API void free_pinned(std::byte* data) noexcept;

} // namespace ostraka::runtime::cuda
