// SPDX-License-Identifier: Apache-2.0
// Sums at the speed of the machine: what MPI gets as an operation, what the limit adds with.
#pragma once

#include <ostraka/base/dtype.hpp>

#include <mpi.h>

#include <cstddef>
#include <cstdint>

namespace ostraka::bench {

/// out[i] = a[i] + b[i], f64, f32 or bf16; `out` may be `a`. bf16 is added two at a time in f32 and rounded to nearest.
void sum_two(DType dtype, std::byte* out, const std::byte* a, const std::byte* b, std::int64_t bytes);

/// A type as MPI knows it, and its sum.
struct MpiSum {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_SUM;
};
/// For f64 and f32 MPI's own, for bf16 a type and an operation made with sum_two.
MpiSum mpi_sum(DType dtype);
/// Frees what mpi_sum made.
void release(MpiSum& sum);

} // namespace ostraka::bench
