// SPDX-License-Identifier: Apache-2.0
// Reductions and copies at memory speed: one pass over all sources, in their order, whatever their number.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/layout/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ostraka::comm::impl {

/// From this size on results go around the caches: four times a core's own cache. Between one and four times, the cache
/// that cores share holds what all ranks read and write, and 2 MiB take 20 % more around it (f32, two ranks; 8 MiB take
/// 30 % less).
std::int64_t streamed_bytes();

/// Writes the reduction of sources[0][i], sources[1][i], ... to every outs[k][i], 0 <= i < count. 16-bit types are
/// reduced in f32 and rounded once, integers wrap around, `mean` divides the sum by the number of sources. An out may
/// be one of the sources, but not overlap one otherwise. Results of `streams_from` bytes or more that are no sources go
/// around the caches; other processes see them all the same once they know that the call is over.
void reduce(DType dtype, layout::ReduceOp op, std::span<const std::byte* const> sources,
            std::span<std::byte* const> outs, std::int64_t count, std::int64_t streams_from = streamed_bytes());

/// Copies; as reduce, around the caches from `streams_from` on. The ranges do not overlap.
void copy_bytes(const std::byte* from, std::byte* to, std::int64_t bytes, std::int64_t streams_from = streamed_bytes());

} // namespace ostraka::comm::impl
