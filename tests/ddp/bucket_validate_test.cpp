// SPDX-License-Identifier: Apache-2.0
// Buffers that somebody else laid out: what is taken, and what is refused by name.
#include "ddp/buckets.hpp"

#include <limits>

namespace ostraka::ddp::test {
namespace {

using Buffers = std::vector<BufferLayout>;

// f32: "a", "b", "c" and an empty "e" of two buckets; expert bf16: "x"; "frozen" in none.
class Given : public testing::Test {
protected:
  Given() {
    specs = {{"a", {10}, DType::f32}, {"frozen", {7}, DType::f64, false},
             {"b", {20}, DType::f32}, {"x", {3}, DType::bf16},
             {"c", {30}, DType::f32}, {"e", {0}, DType::f32}};
    specs[3].expert = true;
    gradients.assign(specs.size(), DType::f32);
    buffers = plan_buffers(specs, gradients, sharded(40), dense, expert);
  }

  void check() const { validate(buffers, specs, gradients, dense, expert); }

  void refused(std::initializer_list<std::string> parts) {
    ostraka::test::expect_error(
        Status::INVALID_ARGUMENT, [&] { check(); }, parts);
    buffers = plan_buffers(specs, gradients, sharded(40), dense, expert);
    EXPECT_NO_THROW(check());
  }

  Specs specs;
  std::vector<DType> gradients;
  GroupSizes dense{4, 2}, expert{3, 3};
  Buffers buffers;
};

TEST_F(Given, StartsFromTheseNumbers) {
  ASSERT_EQ(buffers.size(), 2u);
  EXPECT_EQ(buffers[0].parameters, (std::vector<int>{5, 4, 2, 0}));
  EXPECT_EQ(buffers[0].ranges, (Ranges{{0, 0}, {0, 30}, {64, 84}, {128, 138}}));
  EXPECT_EQ(bucket_ranges(buffers[0]), (Ranges{{0, 128}, {128, 256}}));
  EXPECT_EQ(bucket_ranges(buffers[1]), (Ranges{{0, 384}}));
  check();
}

TEST_F(Given, OtherAlignmentsAreTaken) {
  buffers[0].ranges = {{31, 31}, {1, 31}, {31, 51}, {58, 68}};
  buffers[0].buckets[0].range = {0, 58};
  buffers[0].buckets[0].numel_unpadded = 51;
  buffers[0].buckets[1].range = {58, 68};
  buffers[0].buckets[1].numel_unpadded = 10;
  check();
  buffers[0].ranges = {{30, 30}, {20, 50}, {0, 20}, {58, 68}}; // any order inside a bucket
  check();
  buffers[0].buckets = {{{0, 68}, 60, {0, 1, 2, 3}}};
  check();
}

TEST_F(Given, Keys) {
  buffers.pop_back();
  refused({"expected buffers of f32 parameters with f32 gradients; expert bf16 parameters with f32 gradients, found",
           "found f32 parameters with f32 gradients"});
  buffers.clear();
  refused({"found none"});
  std::swap(buffers[0], buffers[1]);
  refused({"expected buffers of"});
  buffers[1].key.expert = false;
  refused({"expert bf16", "; bf16"});
  buffers[0].key.gradient = DType::f64;
  refused({"f32 parameters with f64 gradients"});
  buffers.push_back(buffers[1]);
  refused({"expected buffers of"});
}

TEST_F(Given, Parameters) {
  buffers[0].parameters.pop_back();
  refused({"f32 parameters", "expected 4 parameters", "found 3"});
  std::swap(buffers[0].parameters[2], buffers[0].parameters[3]);
  refused({"'b' (2) at position 2", "reverse order", "found 0"});
  buffers[0].parameters[3] = 1; // the frozen one
  refused({"'a' (0)", "found 1"});
  buffers[0].parameters[3] = 1000;
  refused({"'a' (0)", "found 1000"});
}

TEST_F(Given, Ranges) {
  buffers[0].ranges.pop_back();
  refused({"expected 4 ranges", "found 3"});
  buffers[0].ranges[2].end = 85;
  refused({"parameter 'b'", "20 elements", "[64, 85)"});
  buffers[0].ranges[2] = {std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max()};
  refused({"parameter 'b'", "20 elements"});
  buffers[0].ranges[2] = {100, 80};
  refused({"parameter 'b'", "[100, 80)"});
  buffers[0].ranges[2] = {29, 49};
  refused({"bucket 0", "'c' at [0, 30)", "'b' at [29, 49)", "overlap"});
  buffers[0].ranges[2] = {0, 20};
  refused({"'c'", "'b'", "overlap"});
  buffers[0].ranges[2] = {109, 129};
  refused({"bucket 0", "'b' inside [0, 128)", "[109, 129)"});
  buffers[0].ranges[3] = {247, 257};
  refused({"bucket 1", "'a' inside [128, 256)", "[247, 257)"});
  buffers[0].ranges[3] = {100, 110};
  refused({"bucket 1", "'a' inside [128, 256)"});
  buffers[0].ranges[0] = {129, 129};
  refused({"bucket 0", "'e' inside [0, 128)"});
}

TEST_F(Given, Buckets) {
  buffers[0].buckets[0].range.begin = 2;
  refused({"bucket 0", "begins at 0", "[2, 128)"});
  buffers[0].buckets[1].range.begin = 130;
  refused({"bucket 1", "begins at 128", "[130, 256)"});
  buffers[0].buckets[1].range = {126, 256};
  refused({"bucket 1", "begins at 128"});
  buffers[0].buckets[1].range.end = 100;
  refused({"bucket 1", "[128, 100)"});
  buffers[0].buckets.pop_back();
  refused({"parameter 'a' is in no bucket"});
  buffers[0].buckets.clear();
  refused({"parameter 'e' is in no bucket"});
  buffers[0].buckets.push_back({{256, 384}, 0, {}});
  refused({"bucket 2", "at least one parameter"});
  buffers[0].buckets.push_back({{256, 384}, 0, {3}});
  refused({"bucket 2", "behind the last one", "position 3"});
  std::swap(buffers[0].buckets[0].parameters[1], buffers[0].buckets[0].parameters[2]);
  refused({"bucket 0", "'c' (position 1)", "found position 2"});
  buffers[0].buckets[1].parameters[0] = -1;
  refused({"bucket 1", "'a' (position 3)", "found position -1"});
  buffers[0].buckets[0].parameters.pop_back();
  refused({"bucket 1", "'b' (position 2)", "found position 3"});
}

TEST_F(Given, Shards) {
  buffers[0].shards = 4;
  refused({"f32 parameters", "expected 2 shards", "found 4"});
  buffers[1].shards = 1;
  refused({"expert bf16", "expected 3 shards", "found 1"});
  buffers[1].buckets[0].range.end = 383;
  refused({"expert bf16", "bucket 0", "multiple of the 3 shards", "383"});
}

TEST_F(Given, Unpadded) {
  buffers[0].buckets[0].numel_unpadded = 49;
  refused({"bucket 0", "numel_unpadded from 50 to 128", "found 49"});
  buffers[0].buckets[0].numel_unpadded = 129;
  refused({"bucket 0", "numel_unpadded from 50 to 128", "found 129"});
}

TEST_F(Given, Sizes) {
  gradients.pop_back();
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [&] { check(); }, {"validate", "6 gradient types", "found 5"});
  gradients.push_back(DType::f32);
  dense.shards = 3;
  ostraka::test::expect_error(Status::INVALID_ARGUMENT, [&] { check(); }, {"validate", "dense", "divide"});
}

} // namespace
} // namespace ostraka::ddp::test
