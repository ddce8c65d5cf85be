// SPDX-License-Identifier: Apache-2.0
// Parameters, options and readable results for tests of bucket layouts.
#pragma once

#include "support/expect_error.hpp"
#include <ostraka/ddp/bucket_layout.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::ddp::test {

using layout::Range;
using layout::Shape;
using Ranges = std::vector<Range>;
using Counts = std::vector<std::int64_t>;
using Specs = std::vector<ParameterSpec>;

/// f32 parameters "p0", "p1", ... in the order of registration.
inline Specs specs_of(const std::vector<Shape>& shapes) {
  Specs specs;
  for (const Shape& shape : shapes)
    specs.push_back({"p" + std::to_string(specs.size()), shape, DType::f32});
  return specs;
}

inline BucketOptions unsharded(std::optional<std::int64_t> bucket_size = {}) {
  BucketOptions options;
  options.bucket_size = bucket_size;
  return options;
}

inline BucketOptions sharded(std::optional<std::int64_t> bucket_size = {}) {
  BucketOptions options = unsharded(bucket_size);
  options.sharded_optimizer = true;
  return options;
}

inline BucketOptions layer_wise(std::optional<std::int64_t> bucket_size = {}) {
  BucketOptions options = sharded(bucket_size);
  options.arrangement = Arrangement::layer_wise;
  return options;
}

/// With gradients of the parameters' types, all over `ranks` ranks.
inline std::vector<BufferLayout> plan_all(const Specs& specs, const BucketOptions& options, int ranks = 1) {
  std::vector<DType> gradients;
  for (const ParameterSpec& spec : specs)
    gradients.push_back(spec.dtype);
  return plan_buffers(specs, gradients, options, {ranks, ranks}, {ranks, ranks});
}

/// Where there is one buffer.
inline BufferLayout plan_one(const Specs& specs, const BucketOptions& options, int ranks = 1) {
  std::vector<BufferLayout> buffers = plan_all(specs, options, ranks);
  EXPECT_EQ(buffers.size(), 1u);
  return buffers.at(0);
}

inline BufferLayout plan(const std::vector<Shape>& shapes, const BucketOptions& options, int ranks = 1) {
  return plan_one(specs_of(shapes), options, ranks);
}

inline Ranges bucket_ranges(const BufferLayout& buffer) {
  Ranges ranges;
  for (const BucketLayout& bucket : buffer.buckets)
    ranges.push_back(bucket.range);
  return ranges;
}

inline Counts unpadded(const BufferLayout& buffer) {
  Counts counts;
  for (const BucketLayout& bucket : buffer.buckets)
    counts.push_back(bucket.numel_unpadded);
  return counts;
}

/// Parameters of each bucket.
inline Counts bucket_counts(const BufferLayout& buffer) {
  Counts counts;
  for (const BucketLayout& bucket : buffer.buckets)
    counts.push_back(static_cast<std::int64_t>(bucket.parameters.size()));
  return counts;
}

/// Ten weights of 95 x 95, and the same with biases.
inline Specs tens(bool bias) {
  Specs specs;
  for (int i = 0; i < 10; ++i) {
    specs.push_back({"w" + std::to_string(i), {95, 95}, DType::f32});
    if (bias)
      specs.push_back({"b" + std::to_string(i), {95}, DType::f32});
  }
  return specs;
}

/// One of the ten weights is shared.
inline BufferLayout with_shared(int parameter, const BucketOptions& options) {
  Specs specs = tens(false);
  specs[static_cast<std::size_t>(parameter)].shared_embedding = true;
  return plan_one(specs, options, 4);
}

} // namespace ostraka::ddp::test
