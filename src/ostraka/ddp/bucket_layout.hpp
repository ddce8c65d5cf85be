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
  std::string name; ///< "module.parameter", for error texts
  layout::Shape shape;
  DType dtype = DType::f64;      ///< storage type of the weights: f64, f32 or bf16
  bool trainable = true;         ///< else it is in no buffer, and its shape and type are not looked at
  bool expert = false;           ///< its gradient is reduced over the ranks of the expert mesh
  bool shared_embedding = false; ///< has a bucket of its own where the optimizer is sharded
};

/// How parameters are arranged.
enum class Arrangement : std::int32_t {
  packed = 0,     ///< one behind the other in reverse order of registration; shards cut them anywhere
  layer_wise = 1, ///< every parameter whole in one shard, for optimizers that work on whole matrices; sharded only
};

struct BucketOptions {
  std::optional<std::int64_t> bucket_size; ///< a bucket ends with the parameter that reaches it; none: the default
  std::optional<int> num_buckets;          ///< at most so many in each buffer (and one per shared embedding) instead
  bool disable_bucketing = false;          ///< one bucket per buffer (and one per shared embedding where sharded)
  bool sharded_optimizer = false;          ///< buckets are cut evenly over `shards`
  bool pad_for_bandwidth = false;          ///< sharded bucket ends are multiples of 65536, too
  Arrangement arrangement = Arrangement::packed;
};

/// Throws INVALID_ARGUMENT: bucket_size < 1, num_buckets < 1 or both, an unknown arrangement, layer_wise without
/// sharded_optimizer.
OSTRAKA_API void validate(const BucketOptions& options);

/// What tells buffers apart.
struct BufferKey {
  DType parameter;
  DType gradient;
  bool expert = false;

  bool operator==(const BufferKey&) const = default;
};

/// "f32 parameters with f32 gradients", "expert bf16 parameters with f32 gradients"
OSTRAKA_API std::string to_string(const BufferKey& key);

/// Consecutive parameters whose gradients are reduced in one operation. Without elements where its parameters have
/// none: an empty one that is registered before those of a full bucket begins the next bucket like any other.
struct BucketLayout {
  layout::Range range;             ///< in the buffer
  std::int64_t numel_unpadded = 0; ///< packed: all but the padding at its end; layer_wise: of its parameters only
  std::vector<int> parameters;     ///< positions in BufferLayout::parameters, ascending; buckets continue one another

  bool operator==(const BucketLayout&) const = default;
};

struct BufferLayout {
  BufferKey key;
  std::vector<int> parameters;       ///< indices of the specs in reverse order of registration
  std::vector<layout::Range> ranges; ///< of each of them, in the buffer
  std::vector<BucketLayout> buckets; ///< cover the buffer, in order
  int shards = 1;                    ///< every bucket is cut into so many equal parts; 1 without a sharded optimizer

  std::int64_t size() const { return buckets.empty() ? 0 : buckets.back().range.end; }
  bool operator==(const BufferLayout&) const = default;
};

/// max(40,000,000, 1,000,000 x ranks). Throws INVALID_ARGUMENT for ranks < 1.
OSTRAKA_API std::int64_t default_bucket_size(std::int64_t ranks);

/// The smallest multiple of 64 >= `offset`: where a parameter may start if the optimizer is sharded. Throws
/// INVALID_ARGUMENT for a negative offset or a result beyond 64 bits.
OSTRAKA_API std::int64_t pad_parameter_start(std::int64_t offset);
/// The smallest multiple of lcm(shards, 128), or lcm(shards, 128, 65536), >= `end`. Throws INVALID_ARGUMENT for a
/// negative end, shards < 1 or a result beyond 64 bits.
OSTRAKA_API std::int64_t pad_bucket_end(std::int64_t end, int shards, bool pad_for_bandwidth);

/// The ranks that share parameters of one kind.
struct GroupSizes {
  int ranks = 1;  ///< how many reduce the gradients: decides the default bucket size
  int shards = 1; ///< over how many of those the optimizer is sharded; divides `ranks`
};

/// The buffers of the trainable ones of `specs`, in the order in which their keys appear in reverse order of
/// registration. `gradient_dtypes`: f64, f32 or bf16, one per spec. `dense` is for parameters of all ranks, `expert`
/// for expert ones; `shards` counts only where the optimizer is sharded. Throws INVALID_ARGUMENT for invalid options
/// and sizes, and naming the parameter for a wrong type or shape and for sizes beyond 64 bits.
OSTRAKA_API std::vector<BufferLayout> plan_buffers(std::span<const ParameterSpec> specs,
                                                   std::span<const DType> gradient_dtypes, const BucketOptions& options,
                                                   const GroupSizes& dense, const GroupSizes& expert);

/// For buffers that somebody else laid out. Throws INVALID_ARGUMENT naming buffer, bucket and parameter: other keys,
/// parameters or order than plan_buffers gives, tensors that overlap or leave their bucket, buckets that do not cover
/// the buffer, another number of shards than the group has (give `shards` = 1 where the optimizer is not sharded), or
/// buckets that cannot be cut into them. No alignment is asked for.
OSTRAKA_API void validate(std::span<const BufferLayout> buffers, std::span<const ParameterSpec> specs,
                          std::span<const DType> gradient_dtypes, const GroupSizes& dense, const GroupSizes& expert);

/// Bucket `bucket` alone as a layout of its parameters with offsets from its begin, one segment per shard. `specs` are
/// those that the buffer was planned for. Throws INVALID_ARGUMENT for an index out of range.
OSTRAKA_API layout::GlobalLayout layout_of(const BufferLayout& buffer, int bucket,
                                           std::span<const ParameterSpec> specs);

} // namespace ostraka::ddp
