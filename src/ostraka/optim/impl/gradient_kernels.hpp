// SPDX-License-Identifier: Apache-2.0
// Reductions and scaling on contiguous memory of `dtype` f64 or f32. Called from Stream::launch bodies only.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/optim/norm.hpp>
#include <ostraka/runtime/stream.hpp>

#include <cstdint>

namespace ostraka::optim::kernels {

/// What some elements contribute to a norm: the sum or maximum in `medium`; squares of sizes outside of [2^-450, 2^450]
/// in the others, times 2^1200 and 2^-1200.
struct NormPart {
  double small = 0;
  double medium = 0;
  double large = 0;
};

/// *part = what the elements contribute, once the stream of `execution` is there: memory that hosts and devices reach.
void norm_part(const runtime::Execution& execution, Norm norm, DType dtype, const void* data, std::int64_t count,
               NormPart* part);

/// Adds `part` to `sum`.
void join(Norm norm, NormPart& sum, const NormPart& part);

/// The norm of all elements in `sum`.
double finish(Norm norm, const NormPart& sum);

/// *sum = 0 if no element is NaN or infinite, else NaN; likewise.
void add_differences(const runtime::Execution& execution, DType dtype, const void* data, std::int64_t count,
                     double* sum);

} // namespace ostraka::optim::kernels
