// SPDX-License-Identifier: Apache-2.0
// Where parameters stand in contiguous buffers, and how the buffers are cut into buckets. Pure functions: every rank
// computes the same alone. All numbers are elements. Source: seed 004, spec/megatron_fsdp.md 5.1.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/layout/global_layout.hpp>
#include <ostraka/layout/range.hpp>
#include <ostraka/layout/shape.hpp>

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace ostraka::ddp {

struct ParameterSpec {
  std::string name; ///< "module.parameter"
  layout::Shape shape;
  DType dtype = DType::f64; ///< storage type of the weights: f64, f32 or bf16
  bool trainable = true;    ///< else it is in no bucket
  bool expert = false;      ///< its gradient is reduced over the ranks of the expert mesh
  bool shared_embedding = false; ///< has a bucket of its own where the optimizer is sharded
};

/// How parameters are arranged.
enum class Arrangement : std::int32_t {
  packed = 0,     ///< in reverse order of registration
  layer_wise = 1, ///< every parameter whole in one shard, for optimizers that work on whole matrices; sharded only
};

struct BucketOptions {
  std::optional<std::int64_t> bucket_size; ///< a bucket ends with the parameter that reaches it; none: the default
  std::optional<int> num_buckets;          ///< about so many in each buffer, instead of bucket_size
  bool disable_bucketing = false;          ///< one bucket per buffer
  bool sharded_optimizer = false;          ///< buckets are cut evenly over `shards`
  bool pad_for_bandwidth = false;          ///< sharded bucket ends at multiples of 65536, too
  Arrangement arrangement = Arrangement::packed;
};

/// Throws INVALID_ARGUMENT: bucket_size < 1, num_buckets < 1 or both, layer_wise without sharded_optimizer.
OSTRAKA_API void validate(const BucketOptions& options);

/// What tells buffers apart.
struct BufferKey {
  DType parameter;
  DType gradient;
  bool expert = false;

  bool operator==(const BufferKey&) const = default;
};

struct BucketLayout {
  layout::Range range;          ///< in the buffer
  std::int64_t numel_unpadded = 0; ///< without the padding at its end
  std::vector<int> parameters;  ///< positions in BufferLayout::parameters, ascending
};

struct BufferLayout {
  BufferKey key;
  std::vector<int> parameters;         ///< indices of the specs, in the order in which they are walked
  std::vector<layout::Range> ranges;   ///< of each of them, in the buffer
  std::vector<BucketLayout> buckets;   ///< cover the buffer, in order
  int shards = 1;                      ///< every bucket is cut into so many equal parts

  std::int64_t size() const { return buckets.empty() ? 0 : buckets.back().range.end; }
};

/// max(40,000,000, 1,000,000 x ranks).
OSTRAKA_API std::int64_t default_bucket_size(std::int64_t ranks);

/// The smallest multiple of 64 >= `offset`: where a parameter may start if the optimizer is sharded.
OSTRAKA_API std::int64_t pad_parameter_start(std::int64_t offset);
/// The smallest multiple of lcm(shards, 128), or lcm(shards, 128, 65536), >= `end`.
OSTRAKA_API std::int64_t pad_bucket_end(std::int64_t end, int shards, bool pad_for_bandwidth);

/// The buffers of the trainable ones of `specs`, in the order in which their keys appear in reverse order of
/// registration. `gradient_dtypes`: one per spec. `ranks`: how many reduce gradients of dense [0] and expert [1]
/// parameters, `shards`: over how many of those the optimizer is sharded. Throws INVALID_ARGUMENT naming the parameter.
struct GroupSizes {
  int ranks = 1;
  int shards = 1;
};
OSTRAKA_API std::vector<BufferLayout> plan_buffers(std::span<const ParameterSpec> specs,
                                                   std::span<const DType> gradient_dtypes,
                                                   const BucketOptions& options, const GroupSizes& dense,
                                                   const GroupSizes& expert);

/// Throws INVALID_ARGUMENT naming what is wrong with buffers that somebody else laid out: other keys, parameters or
/// order than `specs` have, tensors that overlap or leave their bucket, buckets that do not cover the buffer or cannot
/// be cut into their shards.
OSTRAKA_API void validate(std::span<const BufferLayout> buffers, std::span<const ParameterSpec> specs,
                          std::span<const DType> gradient_dtypes, const GroupSizes& dense, const GroupSizes& expert);

/// Bucket `bucket` alone as a layout of its parameters with offsets from its begin, one segment per shard.
OSTRAKA_API layout::GlobalLayout layout_of(const BufferLayout& buffer, int bucket, std::span<const ParameterSpec> specs);

} // namespace ostraka::ddp
