// SPDX-License-Identifier: Apache-2.0
// Reductions and copies at memory speed: one pass over all sources, in their order, whatever their number.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/comm/partial_type.hpp>
#include <ostraka/layout/placement.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace ostraka::comm::impl {

/// Larger results go around the caches: twice what a core has for itself. Measured on two ranks: where the target is
/// not cached, sums of 4 MiB take a third of the time; where a loop finds all in the cache that cores share, sums of 2
/// MiB take 1.7 times as long, copies up to 6 MiB the same time, and from 8 MiB on both are faster.
std::int64_t cached_bytes();

/// Writes the reduction of sources[0][i], sources[1][i], ... to every outs[k][i], 0 <= i < count. 16-bit types are
/// reduced in f32 and rounded once, integers wrap around, `mean` divides the sum by the number of sources. An out may
/// be one of the sources, but not overlap one otherwise. Results of more than `streams_above` bytes that are no sources
/// go around the caches; other processes see them all the same once they know that the call is over.
void reduce(DType dtype, layout::ReduceOp op, std::span<const std::byte* const> sources,
            std::span<std::byte* const> outs, std::int64_t count, std::int64_t streams_above = cached_bytes());

/// The same in two passes: what some of the sources give, in partial_type(dtype), neither divided nor rounded; then
/// what all such partial results give in their order, in `dtype`. `mean` divides by the number of ranks behind them.
void reduce_partly(DType dtype, layout::ReduceOp op, std::span<const std::byte* const> sources, std::byte* out,
                   std::int64_t count);
void reduce_partial(DType dtype, layout::ReduceOp op, std::span<const std::byte* const> partial,
                    std::span<std::byte* const> outs, std::int64_t count, int ranks);

/// Copies; as reduce, around the caches above `streams_above`. The ranges do not overlap.
void copy_bytes(const std::byte* from, std::byte* to, std::int64_t bytes, std::int64_t streams_above = cached_bytes());

} // namespace ostraka::comm::impl
