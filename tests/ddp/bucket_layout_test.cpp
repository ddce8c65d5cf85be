// SPDX-License-Identifier: Apache-2.0
// The numbers of spec 5.1 and 6.6 for packed buffers, and case 25.
#include "ddp/buckets.hpp"

#include <limits>

namespace ostraka::ddp::test {
namespace {

constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();

TEST(BucketPadding, Starts) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> table{{0, 0},    {1, 64},    {63, 64},    {64, 64},
                                                                 {65, 128}, {128, 128}, {9025, 9088}};
  for (const auto& [offset, padded] : table)
    EXPECT_EQ(pad_parameter_start(offset), padded) << offset;
  const std::int64_t large = std::int64_t{1} << 40;
  EXPECT_EQ(pad_parameter_start(large), large);
  EXPECT_EQ(pad_parameter_start(large + 1), large + 64);
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [] { pad_parameter_start(-1); }, {"offset >= 0", "found -1"});
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [] { pad_parameter_start(max64); }, {"64 bits"});
}

TEST(BucketPadding, Ends) {
  EXPECT_EQ(pad_bucket_end(1, 3, false), 384);
  EXPECT_EQ(pad_bucket_end(385, 3, false), 768);
  EXPECT_EQ(pad_bucket_end(1, 4, false), 128);
  EXPECT_EQ(pad_bucket_end(143, 4, false), 256);
  EXPECT_EQ(pad_bucket_end(1, 256, false), 256);
  EXPECT_EQ(pad_bucket_end(1, 1, false), 128);
  EXPECT_EQ(pad_bucket_end(0, 7, false), 0);
  EXPECT_EQ(pad_bucket_end(1, 4, true), 65536);
  EXPECT_EQ(pad_bucket_end(65537, 4, true), 131072);
  EXPECT_EQ(pad_bucket_end(1, 3, true), 196608);
  EXPECT_EQ(pad_bucket_end(1, 131072, true), 131072);
  EXPECT_EQ(pad_bucket_end(1, 2147483647, true), std::int64_t{2147483647} * 65536);
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [] { pad_bucket_end(1, 0, false); },
                              {"shards >= 1", "found 0"});
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [] { pad_bucket_end(-1, 1, false); }, {"end >= 0"});
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [] { pad_bucket_end(max64, 3, false); }, {"64 bits"});
}

TEST(BucketDefaults, Size) {
  EXPECT_EQ(default_bucket_size(1), 40'000'000);
  EXPECT_EQ(default_bucket_size(40), 40'000'000);
  EXPECT_EQ(default_bucket_size(41), 41'000'000);
  EXPECT_EQ(default_bucket_size(1024), 1'024'000'000);
  EXPECT_EQ(default_bucket_size(1'000'000), 1'000'000'000'000);
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [] { default_bucket_size(0); }, {"ranks >= 1"});
}

// Each group of ranks by its own number.
TEST(BucketDefaults, AreOfTheGroup) {
  Specs specs = specs_of({{20'000'000}, {20'000'000}, {20'000'000}, {20'000'000}, {20'000'000}, {20'000'000}});
  for (std::size_t i = 3; i < 6; ++i)
    specs[i].expert = true;
  const std::vector<DType> gradients(6, DType::f32);
  const auto buffers = plan_buffers(specs, gradients, {}, {4, 4}, {41, 1});
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(bucket_counts(buffers[0]), (Counts{3})); // expert: 41,000,000
  EXPECT_EQ(bucket_counts(buffers[1]), (Counts{2, 1}));
}

TEST(PackedUnsharded, HasNoPadding) {
  const BufferLayout two = plan({{100, 100}, {50, 50}}, unsharded());
  EXPECT_EQ(two.parameters, (std::vector<int>{1, 0}));
  EXPECT_EQ(two.ranges, (Ranges{{0, 2500}, {2500, 12500}}));
  EXPECT_EQ(bucket_ranges(two), (Ranges{{0, 12500}}));
  EXPECT_EQ(unpadded(two), (Counts{12500}));
  EXPECT_EQ(two.shards, 1);

  const BufferLayout three = plan({{5, 3}, {4, 3}, {7}}, unsharded(), 4);
  EXPECT_EQ(three.ranges, (Ranges{{0, 7}, {7, 19}, {19, 34}}));
  EXPECT_EQ(three.shards, 1); // whatever the number of ranks
  EXPECT_EQ(three.size(), 34);

  EXPECT_EQ(plan({{256}}, unsharded()).ranges, (Ranges{{0, 256}}));
  const BufferLayout primes = plan({{97}, {103}}, unsharded());
  EXPECT_EQ(primes.ranges, (Ranges{{0, 103}, {103, 200}}));
  EXPECT_EQ(bucket_ranges(primes), (Ranges{{0, 200}}));
}

TEST(PackedUnsharded, BucketsEndWithTheParameterThatReachesTheSize) {
  const BufferLayout buffer = plan({{10'000}, {100, 100}, {10'000}}, unsharded(15'000));
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 20'000}, {20'000, 30'000}}));
  EXPECT_EQ(buffer.buckets[0].parameters, (std::vector<int>{0, 1}));
  EXPECT_EQ(buffer.buckets[1].parameters, (std::vector<int>{2}));
  EXPECT_EQ(unpadded(buffer), (Counts{20'000, 10'000}));
  EXPECT_EQ(bucket_counts(plan({{10'000}, {10'000}, {10'000}}, unsharded(10'000))), (Counts{1, 1, 1}));
  EXPECT_EQ(bucket_counts(plan({{10'000}, {10'000}, {10'000}}, unsharded(10'001))), (Counts{2, 1}));
}

TEST(PackedSharded, PadsStartsAndEnds) {
  const BufferLayout buffer = plan({{5, 3}, {4, 3}, {7}}, sharded(), 4);
  EXPECT_EQ(buffer.ranges, (Ranges{{0, 7}, {64, 76}, {128, 143}}));
  EXPECT_EQ(unpadded(buffer), (Counts{143}));
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 256}}));
  EXPECT_EQ(buffer.shards, 4);
  EXPECT_EQ(plan({{5, 3}, {4, 3}, {7}}, sharded(), 3).size(), 384);
  EXPECT_EQ(plan({{95, 95}, {95, 95}}, sharded(), 4).ranges, (Ranges{{0, 9025}, {9088, 18113}}));

  const BufferLayout fives = plan({{5000}, {5000}, {5000}}, sharded(8000), 4);
  EXPECT_EQ(fives.ranges, (Ranges{{0, 5000}, {5056, 10056}, {10112, 15112}}));
  EXPECT_EQ(bucket_counts(fives), (Counts{2, 1}));
  EXPECT_EQ(unpadded(fives), (Counts{10056, 5000}));
  EXPECT_EQ(bucket_ranges(fives), (Ranges{{0, 10112}, {10112, 15232}}));

  BucketOptions bandwidth = sharded(8000);
  bandwidth.pad_for_bandwidth = true;
  EXPECT_EQ(bucket_ranges(plan({{5000}, {5000}, {5000}}, bandwidth, 4)), (Ranges{{0, 65536}, {65536, 131072}}));
}

TEST(PackedSharded, MultiplesOf64StandAsWithoutShards) {
  const std::vector<Shape> shapes{{640}, {1280}, {960}};
  const BufferLayout buffer = plan(shapes, sharded(), 1);
  EXPECT_EQ(buffer.ranges, (Ranges{{0, 960}, {960, 2240}, {2240, 2880}}));
  EXPECT_EQ(buffer.ranges, plan(shapes, unsharded()).ranges);
  EXPECT_EQ(buffer.size(), 2944);
}

TEST(PackedSharded, ThePaddedGapCountsForTheSize) {
  // 10 + 54 + 10 = 74 elements
  EXPECT_EQ(bucket_counts(plan({{10}, {10}, {10}}, sharded(74), 2)), (Counts{2, 1}));
  EXPECT_EQ(bucket_counts(plan({{10}, {10}, {10}}, sharded(75), 2)), (Counts{3}));
}

struct SweepRow {
  std::optional<std::int64_t> bucket_size;
  Counts weights; ///< parameters of each bucket
  Counts with_biases;
};

const std::vector<SweepRow> sweep{
    {{}, {10}, {20}},
    {9000, Counts(10, 1), Counts(10, 2)},
    {9025, Counts(10, 1), Counts(10, 2)},
    {9050, Counts(5, 2), Counts(10, 2)},
    {18000, Counts(5, 2), Counts(5, 4)},
    {18050, Counts(5, 2), Counts(5, 4)},
    {20000, {3, 3, 3, 1}, {6, 6, 6, 2}},
};

TEST(BucketSweep, CountsOfParameters) {
  for (const SweepRow& row : sweep)
    for (const int ranks : {1, 2, 4, 8}) {
      EXPECT_EQ(bucket_counts(plan_one(tens(false), unsharded(row.bucket_size), ranks)), row.weights);
      EXPECT_EQ(bucket_counts(plan_one(tens(true), unsharded(row.bucket_size), ranks)), row.with_biases);
      EXPECT_EQ(bucket_counts(plan_one(tens(false), sharded(row.bucket_size), ranks)), row.weights);
      EXPECT_EQ(bucket_counts(plan_one(tens(true), sharded(row.bucket_size), ranks)), row.with_biases);
    }
}

TEST(BucketSweep, SizesOfWeights) {
  const Counts extents{0, 9025, 18113, 27201}; // of 1, 2, 3 weights, with the padding between them
  for (const SweepRow& row : sweep) {
    const BufferLayout plain = plan_one(tens(false), unsharded(row.bucket_size), 4);
    const BufferLayout padded = plan_one(tens(false), sharded(row.bucket_size), 4);
    for (std::size_t b = 0; b < row.weights.size(); ++b) {
      EXPECT_EQ(plain.buckets[b].range.size(), 9025 * row.weights[b]);
      EXPECT_EQ(plain.buckets[b].numel_unpadded, 9025 * row.weights[b]);
      EXPECT_EQ(padded.buckets[b].range.size(), 9088 * row.weights[b]); // 71 x 128
      if (row.weights[b] <= 3)
        EXPECT_EQ(padded.buckets[b].numel_unpadded, extents[static_cast<std::size_t>(row.weights[b])]);
      else
        EXPECT_EQ(padded.buckets[b].numel_unpadded, 9 * 9088 + 9025);
    }
  }
}

TEST(BucketSweep, SizesWithBiases) {
  // Bias at 0, weight at 128; the next pair at 9216 and 9344, and at 18432 and 18560.
  const BufferLayout buffer = plan_one(tens(true), sharded(20000), 4);
  EXPECT_EQ(
      Ranges(buffer.ranges.begin(), buffer.ranges.begin() + 7),
      (Ranges{{0, 95}, {128, 9153}, {9216, 9311}, {9344, 18369}, {18432, 18527}, {18560, 27585}, {27648, 27743}}));
  EXPECT_EQ(unpadded(buffer), (Counts{27585, 27585, 27585, 9153}));
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 27648}, {27648, 55296}, {55296, 82944}, {82944, 92160}}));
  EXPECT_EQ(unpadded(plan_one(tens(true), unsharded(20000), 4)), (Counts{27360, 27360, 27360, 9120}));
}

TEST(SharedEmbedding, HasABucketOfItsOwn) {
  const std::vector<std::pair<std::optional<std::int64_t>, std::vector<Counts>>> table{
      // shared: the first registered (last in the buffer), the last registered, the one registered as number 6
      {{}, {{9, 1}, {1, 9}, {3, 1, 6}}},
      {9000, {Counts(10, 1), Counts(10, 1), Counts(10, 1)}},
      {9025, {Counts(10, 1), Counts(10, 1), Counts(10, 1)}},
      {9050, {{2, 2, 2, 2, 1, 1}, {1, 2, 2, 2, 2, 1}, {2, 1, 1, 2, 2, 2}}},
      {18000, {{2, 2, 2, 2, 1, 1}, {1, 2, 2, 2, 2, 1}, {2, 1, 1, 2, 2, 2}}},
      {18050, {{2, 2, 2, 2, 1, 1}, {1, 2, 2, 2, 2, 1}, {2, 1, 1, 2, 2, 2}}},
      {20000, {{3, 3, 3, 1}, {1, 3, 3, 3}, {3, 1, 3, 3}}},
  };
  for (const auto& [size, counts] : table) {
    EXPECT_EQ(bucket_counts(with_shared(0, sharded(size))), counts[0]) << size.value_or(0);
    EXPECT_EQ(bucket_counts(with_shared(9, sharded(size))), counts[1]) << size.value_or(0);
    EXPECT_EQ(bucket_counts(with_shared(6, sharded(size))), counts[2]) << size.value_or(0);
    for (const int parameter : {0, 6, 9}) // nothing to keep whole without shards
      EXPECT_EQ(with_shared(parameter, unsharded(size)), plan_one(tens(false), unsharded(size), 4));
  }
}

// The bucket that it closes counts the padding for its start as unpadded.
TEST(SharedEmbedding, ClosesWithItsStart) {
  const BufferLayout buffer = with_shared(0, sharded(18050));
  EXPECT_EQ(unpadded(buffer), (Counts{18113, 18113, 18113, 18113, 9088, 9025}));
  EXPECT_EQ(buffer.buckets[4].range, (Range{72704, 81792}));
  EXPECT_EQ(buffer.ranges[8], (Range{72704, 81729}));
  EXPECT_EQ(buffer.ranges[9], (Range{81792, 90817}));
  EXPECT_EQ(buffer.buckets[5].range, (Range{81792, 90880}));

  Specs specs = specs_of({{10}, {3}}); // 3 elements, 64 with the padding, and a bucket end at 384
  specs[0].shared_embedding = true;
  const BufferLayout small = plan_one(specs, sharded(), 3);
  EXPECT_EQ(unpadded(small), (Counts{64, 10}));
  EXPECT_EQ(bucket_ranges(small), (Ranges{{0, 384}, {384, 768}}));
  EXPECT_EQ(small.ranges, (Ranges{{0, 3}, {384, 394}}));
}

TEST(SharedEmbedding, SeveralInARow) {
  Specs specs = specs_of({{10}, {20}, {30}});
  for (ParameterSpec& spec : specs)
    spec.shared_embedding = true;
  const BufferLayout buffer = plan_one(specs, sharded(), 2);
  EXPECT_EQ(buffer.ranges, (Ranges{{0, 30}, {128, 148}, {256, 266}}));
  EXPECT_EQ(unpadded(buffer), (Counts{30, 20, 10}));
}

TEST(Buffers, AreGroupedByTypesAndExperts) {
  Specs specs = specs_of({{1}, {2}, {3}, {4}, {5}, {6}, {7}});
  const DType types[] = {DType::f32, DType::bf16, DType::f32, DType::bf16, DType::f64, DType::bf16, DType::f32};
  const std::vector<DType> gradients{DType::f32, DType::f32, DType::f32, DType::bf16,
                                     DType::f64, DType::f32, DType::f32};
  for (std::size_t i = 0; i < specs.size(); ++i)
    specs[i].dtype = types[i];
  specs[2].expert = true;
  const auto buffers = plan_buffers(specs, gradients, sharded(), {4, 2}, {3, 3});
  ASSERT_EQ(buffers.size(), 5u);
  EXPECT_EQ(buffers[0].key, (BufferKey{DType::f32, DType::f32, false}));
  EXPECT_EQ(buffers[0].parameters, (std::vector<int>{6, 0}));
  EXPECT_EQ(buffers[0].ranges, (Ranges{{0, 7}, {64, 65}})); // positions count within the buffer
  EXPECT_EQ(buffers[0].shards, 2);
  EXPECT_EQ(buffers[1].key, (BufferKey{DType::bf16, DType::f32, false}));
  EXPECT_EQ(buffers[1].parameters, (std::vector<int>{5, 1}));
  EXPECT_EQ(buffers[1].buckets[0].parameters, (std::vector<int>{0, 1}));
  EXPECT_EQ(buffers[2].key, (BufferKey{DType::f64, DType::f64, false}));
  EXPECT_EQ(buffers[3].key, (BufferKey{DType::bf16, DType::bf16, false}));
  EXPECT_EQ(buffers[4].key, (BufferKey{DType::f32, DType::f32, true}));
  EXPECT_EQ(buffers[4].shards, 3);
  EXPECT_EQ(buffers[4].size(), 384);
  EXPECT_EQ(to_string(buffers[1].key), "bf16 parameters with f32 gradients");
  EXPECT_EQ(to_string(buffers[4].key), "expert f32 parameters with f32 gradients");
}

TEST(Buffers, OfNothing) {
  EXPECT_TRUE(plan_all({}, unsharded()).empty());
  Specs frozen = specs_of({{3}});
  frozen[0].trainable = false;
  EXPECT_TRUE(plan_all(frozen, sharded(), 2).empty());
}

TEST(Buffers, OfEmptyTensors) {
  const BufferLayout buffer = plan({{0}, {3}, {4, 0}, {}}, sharded(1), 2);
  EXPECT_EQ(buffer.ranges, (Ranges{{0, 1}, {128, 128}, {128, 131}, {256, 256}}));
  EXPECT_EQ(bucket_counts(buffer), (Counts{1, 2, 1}));
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 128}, {128, 256}, {256, 256}}));
}

// Case 25: frozen parameters change nothing, wherever they stand and whatever they are.
TEST(Frozen, InAnyPlace) {
  const std::vector<Shape> shapes{{95, 95}, {95}, {33, 7}, {1000}, {}, {64}};
  for (unsigned mask = 0; mask < 64; ++mask) {
    Specs all = specs_of(shapes), kept;
    std::vector<int> index;
    for (std::size_t i = 0; i < all.size(); ++i)
      if ((mask >> i & 1) != 0) {
        all[i].trainable = false;
        all[i].dtype = DType::f64;
      } else {
        kept.push_back(all[i]);
        index.push_back(static_cast<int>(i));
      }
    for (const BucketOptions& options : {unsharded(500), sharded(500), sharded(), layer_wise(500)}) {
      std::vector<BufferLayout> expected = plan_all(kept, options, 3);
      for (BufferLayout& buffer : expected)
        for (int& parameter : buffer.parameters)
          parameter = index[static_cast<std::size_t>(parameter)];
      EXPECT_EQ(plan_all(all, options, 3), expected) << mask;
    }
  }
}

TEST(Frozen, LastOfAnotherType) {
  Specs specs = specs_of({{10}, {20}, {30}});
  specs.push_back({"frozen", {5}, DType::f64, false});
  const auto buffers = plan_all(specs, unsharded(20));
  ASSERT_EQ(buffers.size(), 1u);
  EXPECT_EQ(buffers[0].parameters, (std::vector<int>{2, 1, 0}));
  EXPECT_EQ(bucket_counts(buffers[0]), (Counts{1, 1, 1}));
  specs[3].shape = {-1}; // nobody looks
  specs[3].dtype = DType::i64;
  EXPECT_EQ(plan_buffers(specs, std::vector<DType>(4, DType::f32), unsharded(20), {}, {}), buffers);
}

TEST(LayoutOf, OffsetsCountFromTheBucket) {
  const Specs specs = specs_of({{4, 4}, {4}}); // weight and bias
  const BufferLayout buffer = plan_one(specs, sharded(), 2);
  const layout::GlobalLayout one = layout_of(buffer, 0, specs);
  EXPECT_EQ(one.shapes(), (std::vector<Shape>{{4}, {4, 4}}));
  EXPECT_EQ(one.tensor_range(0), (Range{0, 4}));
  EXPECT_EQ(one.tensor_range(1), (Range{64, 80}));
  EXPECT_EQ(one.size(), 128);
  EXPECT_EQ(one.segments(), 2);
  EXPECT_EQ(one.segment_range(1), (Range{64, 128}));
  EXPECT_EQ(one.padding(), 108);

  const Specs many = tens(true);
  const BufferLayout buckets = plan_one(many, sharded(20000), 4);
  for (int b = 0; b < 4; ++b) {
    const BucketLayout& bucket = buckets.buckets[static_cast<std::size_t>(b)];
    const layout::GlobalLayout part = layout_of(buckets, b, many);
    ASSERT_EQ(part.num_tensors(), std::ssize(bucket.parameters));
    EXPECT_EQ(part.size(), bucket.range.size());
    EXPECT_EQ(part.segment_size(), bucket.range.size() / 4);
    for (int t = 0; t < part.num_tensors(); ++t) {
      const auto position = static_cast<std::size_t>(bucket.parameters[static_cast<std::size_t>(t)]);
      EXPECT_EQ(part.tensor_range(t).begin, buckets.ranges[position].begin - bucket.range.begin);
      EXPECT_EQ(part.shape(t), many[static_cast<std::size_t>(buckets.parameters[position])].shape);
    }
  }
  EXPECT_EQ(layout_of(plan_one(many, unsharded(), 4), 0, many).segments(), 1);
  for (const int b : {-1, 4})
    ostraka::test::expect_error(Status::INVALID_ARGUMENT, [&] { layout_of(buckets, b, many); },
                                {"bucket in [0, 4)", "found " + std::to_string(b)});
}

} // namespace
} // namespace ostraka::ddp::test
