// SPDX-License-Identifier: Apache-2.0
// Every collective in every type against sums and copies done here.
#include "group.hpp"

#include <random>

namespace ostraka::comm::test {
namespace {

constexpr DType types[] = {DType::f64, DType::f32, DType::i64, DType::i32, DType::u8, DType::bf16};
constexpr std::int64_t counts[] = {0, 1, 3, 8, 61, 1000};

/// Element `i` that rank `r` holds: sums over four ranks are exact in every type.
double value(int r, std::int64_t i) { return static_cast<double>((r * 5 + i * 3) % 16 + r); }

std::vector<double> values_of(int r, std::int64_t count, std::int64_t first = 0) {
  std::vector<double> result;
  for (std::int64_t i = 0; i < count; ++i)
    result.push_back(value(r, first + i));
  return result;
}

std::vector<double> sums(std::int64_t count, std::int64_t first = 0) {
  std::vector<double> result(static_cast<std::size_t>(count), 0);
  for (std::int64_t i = 0; i < count; ++i)
    for (int r = 0; r < ranks; ++r)
      result[static_cast<std::size_t>(i)] += value(r, first + i);
  return result;
}

template <class Body>
void for_all(Body&& body) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data"))
    for (const DType dtype : types)
      for (const std::int64_t count : counts) {
        SCOPED_TRACE(group->name() + " " + name(dtype) + " x " + std::to_string(count));
        body(*group, *stream, dtype, count);
      }
}

TEST(Collectives, Allgather) {
  for_all([](Communicator& group, runtime::Stream& stream, DType dtype, std::int64_t count) {
    std::vector<double> expected;
    for (int r = 0; r < ranks; ++r)
      for (const double v : values_of(r, count))
        expected.push_back(v);
    const Operand in = operand(values_of(rank, count), dtype), out = operand(count * ranks + 1, 99, dtype);
    group.allgather(stream, in, out, count, dtype);
    EXPECT_EQ(values(out, count * ranks, dtype), expected);
    EXPECT_EQ(values(part(out, count * ranks, dtype), 1, dtype)[0], 99);
    EXPECT_EQ(values(in, count, dtype), values_of(rank, count));
    // In place, at an offset inside the storage.
    const Operand whole = part(operand(count * ranks + 4, 99, dtype), 4, dtype);
    const Operand own = part(whole, rank * count, dtype);
    for (std::int64_t i = 0; i < count; ++i)
      set_element(own.data(), i, dtype, value(rank, i));
    group.allgather(stream, own, whole, count, dtype);
    EXPECT_EQ(values(whole, count * ranks, dtype), expected);
  });
}

TEST(Collectives, ReduceScatter) {
  for_all([](Communicator& group, runtime::Stream& stream, DType dtype, std::int64_t count) {
    const std::vector<double> mine = values_of(rank, count * ranks), expected = sums(count, rank * count);
    const Operand in = operand(mine, dtype), out = operand(count + 1, 99, dtype);
    group.reduce_scatter(stream, in, out, count, dtype);
    EXPECT_EQ(values(out, count, dtype), expected);
    EXPECT_EQ(values(part(out, count, dtype), 1, dtype)[0], 99);
    EXPECT_EQ(values(in, count * ranks, dtype), mine);
    // Into this rank's place inside the input.
    const Operand own = part(in, rank * count, dtype);
    group.reduce_scatter(stream, in, own, count, dtype);
    EXPECT_EQ(values(own, count, dtype), expected);
  });
}

TEST(Collectives, Allreduce) {
  for_all([](Communicator& group, runtime::Stream& stream, DType dtype, std::int64_t count) {
    const Operand data = operand(values_of(rank, count), dtype);
    group.allreduce(stream, data, count, dtype);
    EXPECT_EQ(values(data, count, dtype), sums(count));
  });
}

TEST(Collectives, ExtremesOfIntegers) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data")) {
    const Operand largest = operand(std::vector<double>{rank * 10.0, -rank * 10.0}, DType::i64);
    const Operand smallest = operand(std::vector<double>{rank * 10.0, -rank * 10.0}, DType::i64);
    group->allreduce(*stream, largest, 2, DType::i64, Reduction::max);
    group->allreduce(*stream, smallest, 2, DType::i64, Reduction::min);
    EXPECT_EQ(values(largest, 2, DType::i64), (std::vector<double>{(ranks - 1) * 10.0, 0}));
    EXPECT_EQ(values(smallest, 2, DType::i64), (std::vector<double>{0, -(ranks - 1) * 10.0}));
  }
}

TEST(Collectives, Broadcast) {
  for_all([](Communicator& group, runtime::Stream& stream, DType dtype, std::int64_t count) {
    for (int root = 0; root < ranks; ++root) {
      const Operand data = operand(values_of(rank, count), dtype);
      group.broadcast(stream, data, count * width_of(dtype), root);
      EXPECT_EQ(values(data, count, dtype), values_of(root, count));
    }
  });
}

TEST(Collectives, WrongRootLeavesTheGroupUsable) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data")) {
    const Operand data = operand(8, rank, DType::f64);
    for (const int root : {-1, ranks})
      expect_error(Status::INVALID_ARGUMENT, [&] { group->broadcast(*stream, data, 64, root); },
                   {"data", "broadcast", std::to_string(root)});
    EXPECT_NO_THROW(group->broadcast(*stream, data, 64, 0));
  }
}

TEST(Collectives, SixtyFourBitIntegersAreExact) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data")) {
    const Operand data = operand(2, 0, DType::i64);
    const std::int64_t mine = (std::int64_t{1} << 55) + rank;
    std::memcpy(data.data(), &mine, 8);
    group->allreduce(*stream, data, 1, DType::i64);
    EXPECT_EQ(load<std::int64_t>(data.data()), ranks * (std::int64_t{1} << 55) + ranks * (ranks - 1) / 2);
  }
}

// bf16: in f32, in rank order, rounded once. Values of very different sizes make other roundings show, large ones that
// cancel make other orders show: 1 + 2^26 - 2^26 is 0, 2^26 - 2^26 + 1 is 1.
double random_bf16(std::mt19937& random) {
  const double sign = random() % 2 == 0 ? -1 : 1;
  if (random() % 2 == 0)
    return sign * (random() % 2 == 0 ? std::ldexp(1, 26) : 1);
  const double fraction = 1 + static_cast<double>(random() % 128) / 128;
  return sign * std::ldexp(fraction, static_cast<int>(random() % 24) - 12);
}

std::vector<std::vector<double>> random_inputs(std::uint64_t seed, std::int64_t count) {
  std::vector<std::vector<double>> inputs(static_cast<std::size_t>(ranks));
  for (int r = 0; r < ranks; ++r) {
    std::mt19937 random(static_cast<unsigned>(seed + static_cast<std::uint64_t>(r)));
    for (std::int64_t i = 0; i < count; ++i)
      inputs[static_cast<std::size_t>(r)].push_back(random_bf16(random));
  }
  return inputs;
}

std::vector<double> sums_in_rank_order(const std::vector<std::vector<double>>& inputs, std::int64_t first,
                                       std::int64_t count) {
  std::vector<double> result;
  for (std::int64_t i = first; i < first + count; ++i) {
    float sum = 0;
    for (const std::vector<double>& input : inputs)
      sum += static_cast<float>(input[static_cast<std::size_t>(i)]);
    result.push_back(bf16_value(round_to_bf16(sum)));
  }
  return result;
}

TEST(Bfloat16Sums, EqualF32SumsInRankOrderRoundedOnce) {
  const auto stream = runtime::make_host_compute_stream();
  for (const std::uint64_t seed : {std::uint64_t{1}, fresh_seed("Bfloat16Sums")}) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    for (const auto& group : all_groups("data"))
      for (const std::int64_t count : {1, 2, 3, 5, 7, 64, 897}) {
        SCOPED_TRACE("count " + std::to_string(count));
        auto inputs = random_inputs(seed, count * ranks);
        const std::vector<double>& mine = inputs[static_cast<std::size_t>(rank)];
        const Operand in = operand(mine, DType::bf16), out = operand(count, 0, DType::bf16);
        group->reduce_scatter(*stream, in, out, count, DType::bf16);
        EXPECT_EQ(values(out, count, DType::bf16), sums_in_rank_order(inputs, rank * count, count));
        const Operand all = operand(mine, DType::bf16);
        group->allreduce(*stream, all, count * ranks, DType::bf16);
        EXPECT_EQ(values(all, count * ranks, DType::bf16), sums_in_rank_order(inputs, 0, count * ranks));
      }
  }
}

TEST(Bfloat16Sums, CountsThatRanksDoNotDivide) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data"))
    for (const std::int64_t count : {0, 1, 2, 3, 5, 7, 13, 101}) {
      SCOPED_TRACE("count " + std::to_string(count));
      const auto inputs = random_inputs(17, count);
      const Operand all = operand(inputs[static_cast<std::size_t>(rank)], DType::bf16);
      group->allreduce(*stream, all, count, DType::bf16);
      EXPECT_EQ(values(all, count, DType::bf16), sums_in_rank_order(inputs, 0, count));
    }
}

TEST(Collectives, HalfPrecisionSumsAreRefused) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data")) {
    const Operand in = operand(8 * ranks, 0, DType::bf16), out = operand(8, 0, DType::bf16);
    if (ranks > 1) {
      expect_error(Status::NOT_SUPPORTED, [&] { group->reduce_scatter(*stream, in, out, 8, DType::f16); }, {"f16"});
      expect_error(Status::NOT_SUPPORTED, [&] { group->allreduce(*stream, in, 8, DType::f16); }, {"f16"});
      expect_error(Status::NOT_SUPPORTED, [&] { group->allreduce(*stream, in, ranks, DType::bf16, Reduction::max); });
    }
    EXPECT_NO_THROW(group->allgather(*stream, out, in, 8, DType::f16)); // moved only, and the group still works
  }
}

} // namespace
} // namespace ostraka::comm::test
