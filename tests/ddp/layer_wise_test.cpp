// SPDX-License-Identifier: Apache-2.0
// Whole parameters in shards: the numbers of spec 5.1 and 6.6, and the rules one by one.
#include "ddp/buckets.hpp"

#include <algorithm>

namespace ostraka::ddp::test {
namespace {

std::size_t bucket_of(const BufferLayout& buffer, std::size_t position) {
  for (std::size_t b = 0; b < buffer.buckets.size(); ++b)
    for (const int held : buffer.buckets[b].parameters)
      if (held == static_cast<int>(position))
        return b;
  ADD_FAILURE() << "position " << position << " is in no bucket";
  return 0;
}

/// The shard of every parameter in its bucket, in the order of the walk; a failure where one is cut.
Counts shards_of(const BufferLayout& buffer) {
  Counts shards;
  for (std::size_t i = 0; i < buffer.ranges.size(); ++i) {
    const Range bucket = buffer.buckets[bucket_of(buffer, i)].range;
    const std::int64_t size = bucket.size() / buffer.shards;
    const std::int64_t shard = (buffer.ranges[i].begin - bucket.begin) / size;
    const std::int64_t begin = bucket.begin + shard * size;
    EXPECT_TRUE((Range{begin, begin + size}.contains(buffer.ranges[i]))) << "position " << i;
    shards.push_back(shard);
  }
  return shards;
}

std::vector<Shape> equal(int count, std::int64_t numel) {
  return std::vector<Shape>(static_cast<std::size_t>(count), Shape{numel});
}

/// Shapes in the order in which they are walked.
BufferLayout walk(std::vector<Shape> shapes, const BucketOptions& options, int ranks) {
  std::reverse(shapes.begin(), shapes.end());
  return plan(shapes, options, ranks);
}

TEST(LayerWise, TwoEqualParametersPerShard) {
  const BufferLayout buffer = plan(equal(8, 256), layer_wise(), 4);
  EXPECT_EQ(shards_of(buffer), (Counts{0, 1, 2, 3, 0, 1, 2, 3}));
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 2048}}));
  EXPECT_EQ(unpadded(buffer), (Counts{2048}));
  EXPECT_EQ(buffer.ranges[5], (Range{768, 1024}));
}

TEST(LayerWise, FiveOnFourShards) {
  const BufferLayout buffer = plan(equal(5, 256), layer_wise(), 4);
  EXPECT_EQ(shards_of(buffer), (Counts{0, 1, 2, 3, 0}));
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 2048}}));
  EXPECT_EQ(unpadded(buffer), (Counts{1280})); // the true sum
}

TEST(LayerWise, OneBucketPerRound) {
  const BufferLayout buffer = plan(equal(8, 256), layer_wise(512), 2);
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 512}, {512, 1024}, {1024, 1536}, {1536, 2048}}));
  EXPECT_EQ(bucket_counts(buffer), (Counts{2, 2, 2, 2}));
  EXPECT_EQ(shards_of(buffer), (Counts{0, 1, 0, 1, 0, 1, 0, 1}));
}

TEST(LayerWise, PaddingTakesParametersAfterTheSizeIsReached) {
  const BufferLayout six = plan(equal(6, 256), layer_wise(5 * 256), 4);
  EXPECT_EQ(bucket_ranges(six), (Ranges{{0, 2048}}));
  EXPECT_EQ(six.size() - six.buckets[0].numel_unpadded, 512);
  const BufferLayout eight = plan(equal(8, 256), layer_wise(5 * 256), 4);
  EXPECT_EQ(bucket_ranges(eight), (Ranges{{0, 2048}}));
  EXPECT_EQ(bucket_counts(plan(equal(9, 256), layer_wise(5 * 256), 4)), (Counts{8, 1}));
}

TEST(LayerWise, MixedSizes) {
  const BufferLayout buffer = walk({{192}, {192}, {256}, {128}, {128}, {192}}, layer_wise(448), 2);
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 1024}, {1024, 1408}}));
  EXPECT_EQ(unpadded(buffer), (Counts{896, 192}));
  // 256 first; its shard also gets the first 128, and then, at equal costs, the second one.
  EXPECT_EQ(shards_of(buffer), (Counts{1, 1, 0, 0, 0, 0}));
  EXPECT_EQ(buffer.ranges[4], (Range{384, 512}));
}

TEST(LayerWise, NoParameterIsCut) {
  for (const int ranks : {1, 2, 3, 4, 5, 8})
    for (const std::optional<std::int64_t> size : {std::optional<std::int64_t>{}, std::optional<std::int64_t>{300}})
      shards_of(plan({{100}, {200}, {100}, {200}, {100}, {3, 5}, {}}, layer_wise(size), ranks));
}

TEST(LayerWise, EqualSizesMeetInABucket) {
  std::vector<Shape> shapes;
  for (int i = 0; i < 4; ++i)
    shapes.insert(shapes.end(), {{256}, {64}});
  const BufferLayout buffer = plan(shapes, layer_wise(), 4);
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 1280}}));
  EXPECT_EQ(shards_of(buffer), (Counts{0, 0, 1, 1, 2, 2, 3, 3})); // walked: 64, 256, 64, 256, ...
}

TEST(LayerWise, SmallParametersFillTheShardsBesideALargeOne) {
  const BufferLayout buffer = plan({{128}, {128}, {128}, {1024}}, layer_wise(), 4);
  EXPECT_EQ(bucket_counts(buffer), (Counts{4}));
  const Counts shards = shards_of(buffer);
  EXPECT_EQ(shards[0], 0);
  for (std::size_t i = 1; i < 4; ++i)
    EXPECT_NE(shards[i], 0);
  // However small the bucket size, a bucket with a large parameter is filled to nine tenths of what it takes.
  EXPECT_EQ(bucket_counts(walk({{1024}, {1024}, {512}, {256}, {1024}}, layer_wise(1), 2)), (Counts{2, 3}));
  EXPECT_EQ(bucket_counts(walk({{1000}, {799}, {1000}, {1000}}, layer_wise(1), 2)), (Counts{3, 1}));
  EXPECT_EQ(bucket_counts(walk({{1000}, {800}, {1000}, {1000}}, layer_wise(1), 2)), (Counts{2, 2}));
}

TEST(LayerWise, SharedEmbeddingsStandInShardZero) {
  for (const int ranks : {2, 4, 8}) {
    Specs specs = specs_of({{1024}});
    specs[0].shared_embedding = true;
    const BufferLayout alone = plan_one(specs, layer_wise(), ranks);
    EXPECT_EQ(alone.ranges, (Ranges{{0, 1024}}));
    EXPECT_EQ(bucket_ranges(alone), (Ranges{{0, 1024 * ranks}})); // equal padding in the other shards
    EXPECT_EQ(unpadded(alone), (Counts{1024}));
  }
  Specs specs = specs_of({{128}, {128}, {128}, {100}, {128}, {128}});
  specs[3].shared_embedding = true;
  const BufferLayout buffer = plan_one(specs, layer_wise(), 2);
  EXPECT_EQ(bucket_counts(buffer), (Counts{2, 1, 3})); // the walk goes on with a new bucket
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 256}, {256, 512}, {512, 1024}}));
  EXPECT_EQ(buffer.ranges[2], (Range{256, 356}));
}

TEST(LayerWise, ShardsAndBucketsAreAligned) {
  for (const int ranks : {1, 2, 3, 4, 6, 8, 100})
    for (const bool pad : {false, true}) {
      BucketOptions options = layer_wise(1000);
      options.pad_for_bandwidth = pad;
      const BufferLayout buffer = plan(equal(2 * ranks, 333), options, ranks);
      EXPECT_EQ(buffer.shards, ranks);
      for (const BucketLayout& bucket : buffer.buckets) {
        EXPECT_EQ(bucket.range.size() % (64 * ranks), 0);
        EXPECT_EQ(bucket.range.end % 128, 0);
        EXPECT_EQ(bucket.range.end % (pad ? 65536 : 1), 0);
      }
      for (const Range& range : buffer.ranges)
        EXPECT_EQ(range.begin % 64, 0);
    }
  EXPECT_EQ(plan({{1}}, layer_wise(), 1).size(), 128);
  EXPECT_EQ(plan({{1}}, layer_wise(), 3).size(), 384);
}

// A matrix of m x n costs max(m, n) min(m, n)^2, anything else its elements.
TEST(LayerWise, BalancesCosts) {
  // Costs 262144, 4096, 2048, 2048; a shard takes at most 1.3 x 12288 / 2 = 7987 elements.
  EXPECT_EQ(shards_of(walk({{64, 64}, {4096}, {2048}, {2, 32, 32}}, layer_wise(), 2)), (Counts{0, 1, 1, 0}));
  // By elements the vector would be the largest; the row, a matrix of cost 6400, comes before it, too.
  EXPECT_EQ(shards_of(walk({{6016}, {1, 6400}, {64, 64}}, layer_wise(), 3)), (Counts{2, 1, 0}));
  // Either way round: 4 x 1024 costs 16384, like 1024 x 4, and 32 x 128 costs 131072.
  EXPECT_EQ(shards_of(walk({{4, 1024}, {1024, 4}, {32, 128}}, layer_wise(), 3)), (Counts{1, 2, 0}));
}

TEST(LayerWise, CostsPersistOverBuckets) {
  // First bucket: costs 1024 and 128. The second one begins with the cheaper shard.
  const BufferLayout buffer = walk({{16, 8}, {128}, {64}, {64}}, layer_wise(1), 2);
  EXPECT_EQ(bucket_counts(buffer), (Counts{2, 2}));
  EXPECT_EQ(shards_of(buffer), (Counts{0, 1, 1, 0}));
}

TEST(LayerWise, LimitOfEvenness) {
  // The matrix is costly, so both vectors go to the other shard: 832 elements, exactly 1.3 x 1280 / 2.
  EXPECT_EQ(shards_of(walk({{7, 64}, {576}, {256}}, layer_wise(), 2)), (Counts{0, 1, 1}));
  // One element more, or a lower limit, and the last one joins the matrix.
  EXPECT_EQ(shards_of(walk({{7, 64}, {576}, {257}}, layer_wise(), 2)), (Counts{0, 1, 0}));
  EXPECT_EQ(shards_of(walk({{7, 63}, {576}, {256}}, layer_wise(), 2)), (Counts{0, 1, 0}));
}

TEST(LayerWise, WithoutBucketing) {
  BucketOptions options = layer_wise();
  options.disable_bucketing = true;
  const BufferLayout buffer = plan(equal(6, 20'000'000), options, 2);
  EXPECT_EQ(bucket_counts(buffer), (Counts{6}));
  EXPECT_EQ(bucket_counts(plan(equal(6, 20'000'000), layer_wise(), 2)), (Counts{2, 2, 2}));
  options = layer_wise();
  options.num_buckets = 3;
  EXPECT_EQ(bucket_counts(plan(equal(12, 256), options, 2)), (Counts{4, 4, 4}));
}

TEST(LayerWise, LargeSizesAreExact) {
  const std::int64_t giga3 = 3'000'000'000;
  const BufferLayout buffer = plan(equal(4, giga3), layer_wise(), 2);
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 2 * giga3}, {2 * giga3, 4 * giga3}}));
  EXPECT_EQ(shards_of(buffer), (Counts{0, 1, 0, 1}));
  // A cost of 2^90.
  const std::int64_t giga = std::int64_t{1} << 30;
  EXPECT_EQ(shards_of(walk({{giga, giga}, {giga}, {giga - 1, giga}, {giga + 1}}, layer_wise(), 2)),
            (Counts{0, 1, 1, 0}));
}

} // namespace
} // namespace ostraka::ddp::test
