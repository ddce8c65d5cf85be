// SPDX-License-Identifier: Apache-2.0
// CRC-32C (Castagnoli: polynomial 0x1EDC6F41, reflected, all ones before and after, as in iSCSI and ext4). Pieces are
// computed where they are and combined.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ostraka::checkpoint::impl {

/// The CRC of bytes whose CRC so far is `crc` (0 at the begin), followed by these.
std::uint32_t crc32c(std::uint32_t crc, const void* data, std::size_t bytes);
inline std::uint32_t crc32c(const void* data, std::size_t bytes) { return crc32c(0, data, bytes); }

/// The same of `from`, which is copied on the way; past the caches where the processor can, so for copies that are not
/// used at once. No overlap.
std::uint32_t crc32c_copy(std::uint32_t crc, void* to, const void* from, std::size_t bytes);

/// The CRC of what has the CRC `first`, followed by `bytes` bytes (>= 0) that have the CRC `second`.
std::uint32_t crc32c_combine(std::uint32_t first, std::uint32_t second, std::int64_t bytes);

/// The same as crc32c without instructions of the processor, and crc32c_copy without those of new ones; for tests.
std::uint32_t crc32c_portable(std::uint32_t crc, const void* data, std::size_t bytes);
std::uint32_t crc32c_copy_portable(std::uint32_t crc, void* to, const void* from, std::size_t bytes);

} // namespace ostraka::checkpoint::impl
