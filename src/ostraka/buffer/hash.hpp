// SPDX-License-Identifier: Apache-2.0
// Hashes of what buffers hold, by which ranks compare it.
#pragma once

#include <ostraka/buffer/dbuffer.hpp>

#include <cstdint>

namespace ostraka::buffer {

/// Of the bytes of this rank's elements. Local; on devices it waits for the compute stream and copies.
OSTRAKA_API std::int64_t hash_of(const DBuffer& buffer);

/// The same of tensor `index` only.
OSTRAKA_API std::int64_t hash_of(const DBuffer& buffer, int index);

} // namespace ostraka::buffer
