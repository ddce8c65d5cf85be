// SPDX-License-Identifier: Apache-2.0
// Random parameters: what every layout promises, and equality with a second reading of the spec.
#include "ddp/bucket_oracle.hpp"
#include "layout/layout_test.hpp"

#include <set>

namespace ostraka::ddp::test {
namespace {

using layout::test::naive_numel;
using layout::test::Random;

struct Case {
  Specs specs;
  std::vector<DType> gradients;
  BucketOptions options;
  GroupSizes dense, expert;
};

constexpr DType types[] = {DType::f64, DType::f32, DType::bf16};
constexpr std::int64_t sweep[] = {0, 1, 9000, 9025, 9050, 18000, 18050, 20000}; // 0: none

Shape draw_shape(Random& random) {
  switch (random.draw(0, 5)) {
  case 0:
    return {95, 95};
  case 1:
    return {64 * random.draw(1, 20)};
  case 2:
    return {random.draw(1, 40), random.draw(1, 40)};
  default:
    return random.shape(3000);
  }
}

GroupSizes draw_sizes(Random& random) {
  const auto shards = static_cast<int>(random.draw(1, 9));
  return {shards * static_cast<int>(random.draw(1, 3)), shards};
}

BucketOptions draw_options(Random& random) {
  BucketOptions options;
  options.sharded_optimizer = random.draw(0, 3) != 0;
  if (options.sharded_optimizer && random.draw(0, 1) == 0)
    options.arrangement = Arrangement::layer_wise;
  options.pad_for_bandwidth = random.draw(0, 9) == 0;
  const std::int64_t kind = random.draw(0, 9);
  if (kind < 6)
    options.bucket_size = kind < 3 ? sweep[random.draw(1, 7)] : random.draw(1, 12000);
  else if (kind < 8)
    options.num_buckets = static_cast<int>(random.draw(1, 12));
  options.disable_bucketing = kind == 9;
  return options;
}

Case draw_case(Random& random) {
  Case result{{}, {}, draw_options(random), draw_sizes(random), draw_sizes(random)};
  const bool mixed = random.draw(0, 1) == 0;
  for (std::int64_t i = random.draw(0, 30); i > 0; --i) {
    ParameterSpec spec{"p" + std::to_string(i), draw_shape(random), types[mixed ? random.draw(0, 2) : 1]};
    spec.trainable = random.draw(0, 6) != 0;
    spec.expert = mixed && random.draw(0, 3) == 0;
    spec.shared_embedding = random.draw(0, 9) == 0;
    result.specs.push_back(spec);
    result.gradients.push_back(mixed && random.draw(0, 1) == 0 ? DType::f32 : spec.dtype);
  }
  return result;
}

std::vector<BufferLayout> plan(const Case& given) {
  return plan_buffers(given.specs, given.gradients, given.options, given.dense, given.expert);
}

const Shape& shape_at(const Case& given, const BufferLayout& buffer, std::size_t position) {
  return given.specs[static_cast<std::size_t>(buffer.parameters[position])].shape;
}

std::int64_t divisor(const Case& given, const BufferLayout& buffer) {
  return std::lcm<std::int64_t>(std::lcm<std::int64_t>(buffer.shards, 128),
                                given.options.pad_for_bandwidth ? 65536 : 1);
}

// Every trainable parameter once, in a buffer of its types, in reverse order; none of the others.
void expect_grouping(const Case& given, const std::vector<BufferLayout>& buffers) {
  std::set<int> seen;
  std::vector<int> firsts;
  for (const BufferLayout& buffer : buffers) {
    ASSERT_FALSE(buffer.parameters.empty());
    ASSERT_TRUE(std::is_sorted(buffer.parameters.rbegin(), buffer.parameters.rend()));
    firsts.push_back(buffer.parameters.front());
    for (const int parameter : buffer.parameters) {
      const ParameterSpec& spec = given.specs[static_cast<std::size_t>(parameter)];
      ASSERT_TRUE(spec.trainable);
      ASSERT_TRUE(seen.insert(parameter).second);
      ASSERT_EQ(buffer.key, (BufferKey{spec.dtype, given.gradients[static_cast<std::size_t>(parameter)], spec.expert}));
    }
  }
  ASSERT_TRUE(std::is_sorted(firsts.rbegin(), firsts.rend()));
  for (std::size_t a = 0; a < buffers.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      ASSERT_FALSE(buffers[a].key == buffers[b].key);
  ASSERT_EQ(std::ssize(seen), std::count_if(given.specs.begin(), given.specs.end(),
                                            [](const ParameterSpec& spec) { return spec.trainable; }));
}

void expect_buckets(const Case& given, const BufferLayout& buffer) {
  std::int64_t end = 0;
  int position = 0;
  for (const BucketLayout& bucket : buffer.buckets) {
    ASSERT_EQ(bucket.range.begin, end);
    end = bucket.range.end;
    ASSERT_EQ(bucket.range.size() % buffer.shards, 0);
    ASSERT_LE(bucket.numel_unpadded, bucket.range.size());
    ASSERT_FALSE(bucket.parameters.empty());
    for (const int held : bucket.parameters) {
      ASSERT_EQ(held, position++);
      ASSERT_TRUE(bucket.range.contains(buffer.ranges[static_cast<std::size_t>(held)]));
    }
    if (given.options.sharded_optimizer) {
      ASSERT_EQ(bucket.range.end % divisor(given, buffer), 0);
    }
  }
  ASSERT_EQ(position, std::ssize(buffer.parameters));
  ASSERT_EQ(buffer.size(), end);
}

void expect_tensors(const Case& given, const BufferLayout& buffer) {
  Ranges ranges;
  ASSERT_EQ(buffer.ranges.size(), buffer.parameters.size());
  for (std::size_t i = 0; i < buffer.ranges.size(); ++i) {
    const Range& range = buffer.ranges[i];
    ASSERT_EQ(range.size(), naive_numel(shape_at(given, buffer, i)));
    if (given.options.sharded_optimizer) {
      ASSERT_EQ(range.begin % 64, 0);
    }
    if (range.size() > 0)
      ranges.push_back(range);
  }
  if (given.options.arrangement == Arrangement::packed) {
    ASSERT_TRUE(std::is_sorted(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; }));
  }
  std::sort(ranges.begin(), ranges.end(), [](auto& a, auto& b) { return a.begin < b.begin; });
  for (std::size_t i = 1; i < ranges.size(); ++i)
    ASSERT_LE(ranges[i - 1].end, ranges[i].begin);
}

void expect_whole_in_shards(const BufferLayout& buffer) {
  for (const BucketLayout& bucket : buffer.buckets)
    for (const int position : bucket.parameters) {
      const Range& range = buffer.ranges[static_cast<std::size_t>(position)];
      const std::int64_t size = bucket.range.size() / buffer.shards;
      if (range.size() > 0) {
        ASSERT_EQ((range.begin - bucket.range.begin) / size, (range.end - 1 - bucket.range.begin) / size);
      }
    }
}

// As many as asked for, embeddings and what they cut aside; empty parameters behind a full bucket open one.
void expect_number(const Case& given, const BufferLayout& buffer) {
  const std::int64_t count = std::count_if(buffer.buckets.begin(), buffer.buckets.end(),
                                           [](const BucketLayout& bucket) { return bucket.range.size() > 0; });
  std::int64_t embeddings = 0;
  for (const int parameter : buffer.parameters)
    embeddings += given.options.sharded_optimizer && given.specs[static_cast<std::size_t>(parameter)].shared_embedding;
  if (given.options.disable_bucketing) {
    ASSERT_LE(count, 1 + 2 * embeddings);
  }
  if (given.options.num_buckets) {
    ASSERT_LE(count, *given.options.num_buckets + 2 * embeddings);
  }
}

TEST(BucketProperties, Invariants) {
  for (const std::uint64_t seed : {std::uint64_t{8}, layout::test::fresh_seed()}) {
    Random random(seed);
    for (int round = 0; round < 2000 && !testing::Test::HasFatalFailure(); ++round) {
      const Case given = draw_case(random);
      const std::vector<BufferLayout> buffers = plan(given);
      expect_grouping(given, buffers);
      for (const BufferLayout& buffer : buffers) {
        const GroupSizes& sizes = buffer.key.expert ? given.expert : given.dense;
        ASSERT_EQ(buffer.shards, given.options.sharded_optimizer ? sizes.shards : 1);
        expect_buckets(given, buffer);
        expect_tensors(given, buffer);
        expect_number(given, buffer);
        if (given.options.arrangement == Arrangement::layer_wise)
          expect_whole_in_shards(buffer);
      }
    }
  }
}

OracleParameters walk_of(const Case& given, const BufferLayout& buffer) {
  OracleParameters walk;
  for (const int parameter : buffer.parameters) {
    const ParameterSpec& spec = given.specs[static_cast<std::size_t>(parameter)];
    const std::int64_t numel = naive_numel(spec.shape);
    __int128 cost = numel;
    if (spec.shape.size() == 2) {
      const std::int64_t least = std::min(spec.shape[0], spec.shape[1]);
      cost = static_cast<__int128>(std::max(spec.shape[0], spec.shape[1])) * least * least;
    }
    walk.push_back({numel, cost, spec.shared_embedding});
  }
  return walk;
}

OracleLayout oracle(const Case& given, const BufferLayout& buffer) {
  const std::int64_t unlimited = std::int64_t{1} << 60;
  const std::int64_t ranks = (buffer.key.expert ? given.expert : given.dense).ranks;
  const std::int64_t size = given.options.disable_bucketing
                                ? unlimited
                                : given.options.bucket_size.value_or(std::max<std::int64_t>(40000000, 1000000 * ranks));
  const OracleRules rules{size, buffer.shards, divisor(given, buffer)};
  if (!given.options.sharded_optimizer)
    return oracle_unsharded(walk_of(given, buffer), size);
  return given.options.arrangement == Arrangement::packed ? oracle_sharded(walk_of(given, buffer), rules)
                                                          : oracle_layer_wise(walk_of(given, buffer), rules);
}

void expect_as_oracle(const Case& given) {
  for (const BufferLayout& buffer : plan(given)) {
    const OracleLayout expected = oracle(given, buffer);
    ASSERT_EQ(buffer.ranges, expected.ranges);
    ASSERT_EQ(bucket_ranges(buffer), expected.buckets);
    ASSERT_EQ(unpadded(buffer), expected.unpadded);
    ASSERT_EQ(bucket_counts(buffer), expected.counts);
  }
}

TEST(BucketProperties, AsTheSpecReads) {
  for (const std::uint64_t seed : {std::uint64_t{51}, layout::test::fresh_seed()}) {
    Random random(seed);
    for (int round = 0; round < 1500 && !testing::Test::HasFatalFailure(); ++round) {
      Case given = draw_case(random);
      given.options.num_buckets.reset(); // the spec does not say how
      expect_as_oracle(given);
    }
  }
}

// The sweep of spec 5.1: biases, shards, one shared embedding or none.
TEST(BucketProperties, Sweep) {
  for (int combination = 0; combination < 12; ++combination)
    for (const std::int64_t size : sweep)
      for (const int ranks : {1, 2, 3, 4, 7, 8}) {
        Case given{{}, {}, {}, {ranks, ranks}, {}};
        for (int i = 0; i < 10; ++i) {
          given.specs.push_back({"weight", {95, 95}, DType::f32});
          if (combination % 2 == 1)
            given.specs.push_back({"bias", {95}, DType::f32});
        }
        if (combination / 4 > 0) // the first or the last parameter
          (combination / 4 == 1 ? given.specs.front() : given.specs.back()).shared_embedding = true;
        given.gradients.assign(given.specs.size(), DType::f32);
        given.options.sharded_optimizer = combination / 2 % 2 == 1;
        if (size > 0)
          given.options.bucket_size = size;
        expect_as_oracle(given);
        given.options.sharded_optimizer = true;
        given.options.arrangement = Arrangement::layer_wise;
        expect_as_oracle(given);
      }
}

TEST(BucketProperties, PlansAreValid) {
  Random random(6);
  for (int round = 0; round < 500; ++round) {
    Case given = draw_case(random);
    if (!given.options.sharded_optimizer)
      given.dense.shards = given.expert.shards = 1;
    const std::vector<BufferLayout> buffers = plan(given);
    EXPECT_NO_THROW(validate(buffers, given.specs, given.gradients, given.dense, given.expert));
    for (const BufferLayout& buffer : buffers)
      for (int b = 0; b < std::ssize(buffer.buckets); ++b) {
        const BucketLayout& bucket = buffer.buckets[static_cast<std::size_t>(b)];
        EXPECT_EQ(layout_of(buffer, b, given.specs).size(), bucket.range.size());
      }
  }
}

} // namespace
} // namespace ostraka::ddp::test
