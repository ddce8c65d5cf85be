// SPDX-License-Identifier: Apache-2.0
#include "group.hpp"
#include <ostraka/comm/agreement.hpp>

#include <limits>

namespace ostraka::comm::test {
namespace {

std::optional<Error> failure_on(std::initializer_list<int> failing) {
  for (const int r : failing)
    if (r == rank)
      return Error(static_cast<Status>(static_cast<int>(Status::SHAPE_MISMATCH) + r % 2),
                   "tensor of " + std::to_string(r));
  return std::nullopt;
}

TEST(Agreement, NobodyFails) {
  for (const auto& group : all_groups("setup"))
    EXPECT_NO_THROW(agree_on_status(*group, std::nullopt));
}

TEST(Agreement, OneRankFailsEverywhere) {
  for (const auto& group : all_groups("setup"))
    for (int failing = 0; failing < ranks; ++failing)
      expect_error(failing % 2 == 0 ? Status::SHAPE_MISMATCH : Status::TYPE_MISMATCH,
                   [&] { agree_on_status(*group, failure_on({failing})); },
                   {"rank " + std::to_string(failing) + ": tensor of " + std::to_string(failing)});
}

TEST(Agreement, LowestFailingRankWins) {
  for (const auto& group : all_groups("setup"))
    for (int low = 0; low < ranks; ++low)
      for (int high = low + 1; high < ranks; ++high)
        expect_error(low % 2 == 0 ? Status::SHAPE_MISMATCH : Status::TYPE_MISMATCH,
                     [&] {
                       agree_on_status(*group, failure_on({low, high}));
                     },
                     {"rank " + std::to_string(low) + ": tensor of " + std::to_string(low)});
}

TEST(Agreement, EmptyAndLongMessages) {
  for (const auto& group : all_groups("setup"))
    for (const std::size_t length : {0u, 1u, 100'000u}) {
      const std::string text(length, 'x');
      expect_error(Status::USER_FAILURE, [&] { agree_on_status(*group, Error(Status::USER_FAILURE, text)); },
                   {"rank 0: " + text});
    }
}

TEST(Agreement, SumsByKey) {
  for (const auto& group : all_groups("setup")) {
    const int own_rank = group->rank(), size = group->size();
    for (const int keys : {1, 2, size}) {
      std::vector<std::int64_t> values{own_rank + 1, -1, std::int64_t{1} << 40}, expected(3, 0);
      for (int k = own_rank % keys; k < size; k += keys) {
        expected[0] += k + 1;
        expected[1] -= 1;
        expected[2] += std::int64_t{1} << 40;
      }
      sum_by_key(*group, own_rank % keys - 1, values);
      EXPECT_EQ(values, expected) << keys << " keys";
    }
  }
}

TEST(Agreement, Values) {
  for (const auto& group : all_groups("setup")) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-5}, std::numeric_limits<std::int64_t>::max(),
                                     std::numeric_limits<std::int64_t>::min()})
      EXPECT_NO_THROW(agree_on_value(*group, value, "number of tensors"));
    for (int different = 0; different < ranks && ranks > 1; ++different)
      for (const int by : {-1, 1})
        expect_error(Status::RANKS_DISAGREE,
                     [&] { agree_on_value(*group, rank == different ? 7 + by : 7, "number of tensors"); },
                     {"number of tensors", "setup"});
  }
}

TEST(Agreement, Together) {
  for (const auto& group : all_groups("setup")) {
    int runs = 0;
    EXPECT_NO_THROW(together(*group, [&] { ++runs; }));
    EXPECT_EQ(runs, 1);
    expect_error(Status::INPUT_OUTPUT,
                 [&] {
                   together(*group, [] {
                     if (rank == ranks - 1)
                       fail(Status::INPUT_OUTPUT, "no such file");
                   });
                 },
                 {"rank " + std::to_string(ranks - 1) + ": no such file"});
  }
}

} // namespace
} // namespace ostraka::comm::test
