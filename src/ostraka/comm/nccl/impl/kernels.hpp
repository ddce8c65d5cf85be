// SPDX-License-Identifier: Apache-2.0
// What NCCL does not do by itself as this library promises it: 16-bit numbers are reduced in f32, and extremes are NaN
// where an element is. Values go to another type before a reduction, and come back behind it.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/layout/placement.hpp>
#include <ostraka/runtime/execution.hpp>

#include <cstdint>

namespace ostraka::comm::nccl {

enum class Form {
  direct, ///< reduced as they are
  wide,   ///< as f32: sums and products of 16-bit types
  keys,   ///< as integers in the order of the numbers, NaN beyond all of them: extremes of floating types
};

struct Wire {
  Form form = Form::direct;
  DType dtype = DType::u8;
};

/// How values of `dtype` travel.
Wire wire_of(DType dtype, layout::ReduceOp op);

/// Queues to = from as they travel. They do not overlap.
void to_wire(const runtime::Execution& execution, const Wire& wire, layout::ReduceOp op, const void* from, DType dtype,
             void* to, std::int64_t count);

/// Queues to = from as `dtype`, rounded once; means divide by `ranks` before. Forms other than direct do not overlap;
/// direct ones are in place.
void from_wire(const runtime::Execution& execution, const Wire& wire, layout::ReduceOp op, int ranks, const void* from,
               void* to, DType dtype, std::int64_t count);

} // namespace ostraka::comm::nccl
