// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/ddp/bucket_layout.hpp>
#include <ostraka/ddp/impl/arrange.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace ostraka::ddp {
namespace {

constexpr const char* operation = "plan_buffers";

// A bucket that reaches it holds at least one part of `num_buckets`, the padding behind its parameters counted.
std::int64_t size_for(int num_buckets, const std::vector<impl::Item>& items, const impl::Rules& rules) {
  std::int64_t total = 0;
  for (const impl::Item& item : items)
    total = add(total, round_up(item.numel, rules.start_multiple, item.what), item.what);
  const std::int64_t part = total / num_buckets + (total % num_buckets != 0 ? 1 : 0);
  const std::int64_t size = round_up(part, rules.start_multiple, operation) - (rules.start_multiple - 1);
  return std::max<std::int64_t>(1, size); // nothing is padded behind a bucket's last parameter
}

std::int64_t bucket_size_of(const BucketOptions& options, int ranks, const std::vector<impl::Item>& items,
                            const impl::Rules& rules) {
  if (options.disable_bucketing)
    return std::numeric_limits<std::int64_t>::max();
  if (options.num_buckets)
    return size_for(*options.num_buckets, items, rules);
  return options.bucket_size ? *options.bucket_size : default_bucket_size(ranks);
}

impl::Rules rules_of(const BucketOptions& options, int shards) {
  if (!options.sharded_optimizer)
    return {0, 1, false, 1, 1};
  return {0, shards, true, impl::start_multiple, impl::end_multiple(shards, options.pad_for_bandwidth)};
}

void arrange(BufferLayout& buffer, std::span<const ParameterSpec> specs, const BucketOptions& options,
             const GroupSizes& sizes) {
  const std::vector<impl::Item> items = impl::items_of(operation, buffer, specs);
  impl::Rules rules = rules_of(options, sizes.shards);
  rules.bucket_size = bucket_size_of(options, sizes.ranks, items, rules);
  buffer.shards = rules.shards;
  if (options.arrangement == Arrangement::layer_wise)
    impl::arrange_layer_wise(buffer, items, rules);
  else
    impl::arrange_packed(buffer, items, rules);
}

} // namespace

void validate(const BucketOptions& options) {
  expect(!options.bucket_size || !options.num_buckets, Status::INVALID_ARGUMENT,
         "bucket options: expected bucket_size or num_buckets, found both");
  expect(!options.bucket_size || *options.bucket_size >= 1, Status::INVALID_ARGUMENT,
         "bucket options: expected bucket_size >= 1, found ", options.bucket_size.value_or(0));
  expect(!options.num_buckets || *options.num_buckets >= 1, Status::INVALID_ARGUMENT,
         "bucket options: expected num_buckets >= 1, found ", options.num_buckets.value_or(0));
  expect(options.arrangement == Arrangement::packed || options.arrangement == Arrangement::layer_wise,
         Status::INVALID_ARGUMENT, "bucket options: expected arrangement 0 (packed) or 1 (layer_wise), found ",
         static_cast<std::int32_t>(options.arrangement));
  expect(options.arrangement == Arrangement::packed || options.sharded_optimizer, Status::INVALID_ARGUMENT,
         "bucket options: arrangement layer_wise is for sharded optimizers: set sharded_optimizer, or take packed");
}

std::string to_string(const BufferKey& key) {
  return std::string(key.expert ? "expert " : "") + name(key.parameter) + " parameters with " + name(key.gradient) +
         " gradients";
}

std::int64_t default_bucket_size(std::int64_t ranks) {
  expect(ranks >= 1, Status::INVALID_ARGUMENT, "default_bucket_size: expected ranks >= 1, found ", ranks);
  return std::max<std::int64_t>(40'000'000, multiply(1'000'000, ranks, "default_bucket_size"));
}

std::int64_t pad_parameter_start(std::int64_t offset) {
  expect(offset >= 0, Status::INVALID_ARGUMENT, "pad_parameter_start: expected an offset >= 0, found ", offset);
  return round_up(offset, impl::start_multiple, "pad_parameter_start");
}

std::int64_t pad_bucket_end(std::int64_t end, int shards, bool pad_for_bandwidth) {
  expect(end >= 0, Status::INVALID_ARGUMENT, "pad_bucket_end: expected an end >= 0, found ", end);
  expect(shards >= 1, Status::INVALID_ARGUMENT, "pad_bucket_end: expected shards >= 1, found ", shards);
  return round_up(end, impl::end_multiple(shards, pad_for_bandwidth), "pad_bucket_end");
}

std::vector<BufferLayout> plan_buffers(std::span<const ParameterSpec> specs, std::span<const DType> gradient_dtypes,
                                       const BucketOptions& options, const GroupSizes& dense,
                                       const GroupSizes& expert) {
  validate(options);
  impl::check_groups(operation, specs, gradient_dtypes, dense, expert);
  std::vector<BufferLayout> buffers = impl::group(operation, specs, gradient_dtypes);
  for (BufferLayout& buffer : buffers)
    arrange(buffer, specs, options, buffer.key.expert ? expert : dense);
  return buffers;
}

layout::GlobalLayout layout_of(const BufferLayout& buffer, int bucket, std::span<const ParameterSpec> specs) {
  expect(bucket >= 0 && bucket < std::ssize(buffer.buckets), Status::INVALID_ARGUMENT,
         "layout_of: expected a bucket in [0, ", buffer.buckets.size(), "), found ", bucket);
  const BucketLayout& part = buffer.buckets[static_cast<std::size_t>(bucket)];
  std::vector<layout::Shape> shapes;
  std::vector<std::int64_t> offsets;
  for (const int position : part.parameters) {
    const auto at = static_cast<std::size_t>(position);
    shapes.push_back(specs[static_cast<std::size_t>(buffer.parameters[at])].shape);
    offsets.push_back(buffer.ranges[at].begin - part.range.begin);
  }
  layout::GlobalLayout result(layout::Policy::flat, std::move(shapes), std::move(offsets), buffer.shards,
                              part.range.size() / buffer.shards);
  result.set_reason("bucket " + std::to_string(bucket) + " of the buffer of " + to_string(buffer.key));
  return result;
}

} // namespace ostraka::ddp
