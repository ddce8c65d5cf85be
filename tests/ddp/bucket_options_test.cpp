// SPDX-License-Identifier: Apache-2.0
// Options of buckets, sizes beyond 32 and 64 bits, and errors of plans.
#include "ddp/buckets.hpp"

#include <limits>

namespace ostraka::ddp::test {
namespace {

constexpr std::int64_t max64 = std::numeric_limits<std::int64_t>::max();

TEST(BucketOptionsOf, DisableBucketing) {
  BucketOptions options = unsharded(1);
  options.disable_bucketing = true;
  EXPECT_EQ(bucket_counts(plan_one(tens(true), options)), (Counts{20}));
  const Specs large = specs_of({{40'000'000}, {40'000'000}});
  EXPECT_EQ(bucket_counts(plan_one(large, unsharded())), (Counts{1, 1}));
  options.bucket_size.reset();
  EXPECT_EQ(bucket_counts(plan_one(large, options)), (Counts{2}));
  options.sharded_optimizer = true;
  EXPECT_EQ(bucket_counts(plan_one(large, options, 4)), (Counts{2}));
  EXPECT_EQ(bucket_counts(with_shared(6, options)), (Counts{3, 1, 6}));
}

TEST(BucketOptionsOf, NumBuckets) {
  for (const bool is_sharded : {false, true}) {
    BucketOptions options;
    options.sharded_optimizer = is_sharded;
    const std::vector<Counts> expected{{10}, {5, 5}, {4, 4, 2}, {3, 3, 3, 1}, {2, 2, 2, 2, 2}};
    for (int n = 1; n <= 5; ++n) {
      options.num_buckets = n;
      EXPECT_EQ(bucket_counts(plan_one(tens(false), options, 4)), expected[static_cast<std::size_t>(n - 1)]) << n;
    }
    options.num_buckets = 4; // scalars: padding counts
    EXPECT_EQ(bucket_counts(plan(std::vector<Shape>(1000, Shape{}), options, 4)), (Counts{250, 250, 250, 250}));
    options.num_buckets = 2'000'000'000;
    EXPECT_EQ(bucket_counts(plan_one(tens(false), options, 4)), Counts(10, 1));
  }
}

TEST(BucketOptionsOf, AreChecked) {
  const auto refused = [](BucketOptions options, std::initializer_list<std::string> parts) {
    ostraka::test::expect_error(
        Status::INVALID_ARGUMENT, [&] { validate(options); }, parts);
    ostraka::test::expect_error(
        Status::INVALID_ARGUMENT, [&] { plan({{3}}, options); }, parts);
  };
  refused(unsharded(0), {"bucket_size >= 1", "found 0"});
  BucketOptions options;
  options.num_buckets = 0;
  refused(options, {"num_buckets >= 1", "found 0"});
  options = unsharded(5);
  options.num_buckets = 2;
  refused(options, {"bucket_size or num_buckets", "both"});
  options = {};
  options.arrangement = Arrangement::layer_wise;
  refused(options, {"layer_wise", "sharded_optimizer"});
  options.arrangement = static_cast<Arrangement>(7);
  refused(options, {"arrangement", "found 7"});
  validate(BucketOptions{});
  validate(layer_wise(1));
}

TEST(LargeBuffers, AreExact) {
  const std::int64_t giga3 = 3'000'000'000;
  const BufferLayout buffer = plan({{giga3}, {giga3 + 1}, {giga3}}, sharded(4 * giga3), 4);
  EXPECT_EQ(buffer.ranges,
            (Ranges{{0, giga3}, {giga3, 2 * giga3 + 1}, {2 * giga3 + 64, 3 * giga3 + 64}})); // 3e9 = 64 x 46,875,000
  EXPECT_EQ(bucket_ranges(buffer), (Ranges{{0, 3 * giga3 + 128}}));                          // 9e9 = 128 x 70,312,500
  EXPECT_EQ(bucket_counts(plan({{giga3}, {giga3}, {giga3}}, unsharded(giga3 + 1))), (Counts{2, 1}));
  EXPECT_EQ(plan(std::vector<Shape>(1000, {giga3}), unsharded()).size(), 3'000'000'000'000);
  EXPECT_EQ(plan({{std::int64_t{1} << 62}}, sharded(), 1024).size(), std::int64_t{1} << 62);
}

TEST(LargeBuffers, BeyondSixtyFourBitsAreErrors) {
  const std::int64_t half = std::int64_t{1} << 62;
  const auto refused = [](const std::vector<Shape>& shapes, const BucketOptions& options, const std::string& name) {
    ostraka::test::expect_error(Status::INVALID_ARGUMENT, [&] { plan(shapes, options, 3); },
                                {"plan_buffers", "parameter '" + name + "'", "64 bits"});
  };
  BucketOptions counted;
  counted.num_buckets = 2;
  for (const BucketOptions& options : {unsharded(), sharded(), layer_wise(), counted}) {
    refused({{half}, {half}}, options, "p0");
    refused({{1}, {half, 4}, {1}}, options, "p1");
  }
  refused({{1}, {max64}}, sharded(), "p1");    // its padding
  refused({{1}, {half}}, layer_wise(1), "p1"); // its shards
}

TEST(PlanErrors, NameTheParameter) {
  Specs specs = specs_of({{1}, {2}});
  const std::vector<DType> gradients(2, DType::f32);
  const auto refused = [&](const std::vector<DType>& types, const GroupSizes& dense, const GroupSizes& expert,
                           std::initializer_list<std::string> parts) {
    ostraka::test::expect_error(
        Status::INVALID_ARGUMENT, [&] { plan_buffers(specs, types, {}, dense, expert); }, parts);
  };
  refused({DType::f32}, {}, {}, {"2 gradient types", "found 1"});
  refused(gradients, {0, 1}, {}, {"dense", "ranks and shards >= 1", "0 and 1"});
  refused(gradients, {}, {1, 0}, {"expert", "1 and 0"});
  refused(gradients, {4, 3}, {}, {"dense", "divide", "3 shards on 4 ranks"});
  refused({DType::f32, DType::f16}, {}, {}, {"'p1'", "gradients", "f16"});
  specs[0].dtype = DType::i32;
  refused(gradients, {}, {}, {"'p0'", "storage type", "found i32"});
  specs[0].dtype = DType::f32;
  specs[1].shape = {3, -1};
  refused(gradients, {}, {}, {"plan_buffers: parameter 'p1'", "-1"});
}

} // namespace
} // namespace ostraka::ddp::test
