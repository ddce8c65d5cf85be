// SPDX-License-Identifier: Apache-2.0
// Every reduction in every type, with pieces of every kind and every limit.
#include "oracle.hpp"

namespace ostraka::comm::test {
namespace {

/// body(group, stream, dtype, op) for every way to run operations and every reduction that a type has.
template <class Body>
void for_all(Body&& body) {
  const auto stream = runtime::make_host_compute_stream();
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings))
      for (const DType dtype : all_types)
        for (const ReduceOp op : all_reductions)
          if (is_defined(op, dtype)) {
            SCOPED_TRACE(text(settings) + " " + name(dtype) + " " + name(op));
            body(*group, *stream, dtype, op);
          }
}

void check_reduce_scatter(Communicator& group, runtime::Stream& stream, DType dtype, ReduceOp op,
                          const Segments& pieces) {
  const auto value = [&](int r, std::int64_t i) { return simple_value(op, dtype, r, i); };
  const std::int64_t own = pieces.range(rank).size(), size = pieces.size();
  const std::vector<double> mine = generated(size, [&](std::int64_t i) { return value(rank, i); });
  const std::vector<double> expected = all_reduced(op, dtype, pieces.begin(rank), own, value);
  const Operand in = operand(mine, dtype), out = operand(own + 1, 99, dtype);
  group.reduce_scatter(stream, in, out, pieces, dtype, op);
  EXPECT_EQ(values(out, own, dtype), expected);
  EXPECT_EQ(values(part(out, own, dtype), 1, dtype)[0], 99);
  EXPECT_EQ(values(in, size, dtype), mine);
  std::vector<double> consumed;
  const Consumer consumer = [&](const runtime::Execution&, std::int64_t first, std::int64_t count, const void* found) {
    ASSERT_EQ(first, static_cast<std::int64_t>(consumed.size())) << "in order";
    const std::vector<double> more = elements(found, count, dtype);
    consumed.insert(consumed.end(), more.begin(), more.end());
  };
  group.reduce_scatter(stream, in, out, pieces, dtype, op, consumer);
  EXPECT_EQ(consumed, expected) << "by a consumer";
  EXPECT_EQ(values(in, size, dtype), mine);
  const Operand place = part(in, pieces.begin(rank), dtype);
  group.reduce_scatter(stream, in, place, pieces, dtype, op);
  EXPECT_EQ(values(place, own, dtype), expected) << "in place";
}

TEST(Reductions, ReduceScatter) {
  for_all([](Communicator& group, runtime::Stream& stream, DType dtype, ReduceOp op) {
    for (const Segments& segments : all_pieces()) {
      SCOPED_TRACE(text(segments));
      check_reduce_scatter(group, stream, dtype, op, segments);
    }
  });
}

TEST(Reductions, Allreduce) {
  for_all([](Communicator& group, runtime::Stream& stream, DType dtype, ReduceOp op) {
    for (const std::int64_t count : {0, 1, 2, 3, 7, 8, 61, 130}) {
      SCOPED_TRACE("count " + std::to_string(count));
      const auto value = [&](int r, std::int64_t i) { return simple_value(op, dtype, r, i); };
      const Operand data = operand(generated(count + 1, [&](std::int64_t i) { return value(rank, i); }), dtype);
      group.allreduce(stream, data, count, dtype, op);
      EXPECT_EQ(values(data, count, dtype), all_reduced(op, dtype, 0, count, value));
      EXPECT_EQ(values(part(data, count, dtype), 1, dtype)[0], value(rank, count));
    }
  });
}

TEST(Reductions, LargeCounts) {
  const auto stream = runtime::make_host_compute_stream();
  for (const auto& group : all_groups("data"))
    for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::u8})
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
        SCOPED_TRACE(std::string(name(dtype)) + " " + name(op));
        check_reduce_scatter(*group, *stream, dtype, op, Segments::equal(ranks, 3001));
        check_reduce_scatter(*group, *stream, dtype, op, Segments::equal(ranks, 40000)); // several blocks for consumers
        check_reduce_scatter(*group, *stream, dtype, op, pieces_by([](int k) { return 1023 + k * 2; }));
      }
}

TEST(Reductions, MeansOfIntegersAreRefusedEverywhere) {
  const auto stream = runtime::make_host_compute_stream();
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings))
      for (const DType dtype : {DType::i64, DType::i32, DType::u8}) {
        const Operand in = operand(8 * ranks, rank, dtype), out = operand(8, 77, dtype);
        const Segments segments = Segments::equal(ranks, 8);
        expect_error(Status::TYPE_MISMATCH, [&] { group->allreduce(*stream, in, 8, dtype, ReduceOp::mean); },
                     {"allreduce", "mean", name(dtype)});
        expect_error(Status::TYPE_MISMATCH,
                     [&] { group->reduce_scatter(*stream, in, out, segments, dtype, ReduceOp::mean); },
                     {"reduce-scatter", "mean", name(dtype)});
        EXPECT_EQ(values(in, 8 * ranks, dtype), std::vector<double>(static_cast<std::size_t>(8 * ranks), rank));
        EXPECT_EQ(values(out, 8, dtype), std::vector<double>(8, 77));
        group->allreduce(*stream, in, 8, dtype, ReduceOp::sum);
        EXPECT_EQ(values(in, 8, dtype), std::vector<double>(8, ranks * (ranks - 1) / 2));
      }
}

/// Reduces one integer over all ranks, one that double may not hold.
template <class T>
T reduced_integer(Communicator& group, T mine, ReduceOp op) {
  const auto stream = runtime::make_host_compute_stream();
  const DType dtype = sizeof(T) == 8 ? DType::i64 : sizeof(T) == 4 ? DType::i32 : DType::u8;
  const Operand data = operand(1, 0, dtype), all = operand(ranks, 0, dtype), own = operand(1, 0, dtype);
  store(data.data(), mine);
  for (int r = 0; r < ranks; ++r)
    store(all.data() + r * static_cast<int>(sizeof(T)), mine);
  group.allreduce(*stream, data, 1, dtype, op);
  group.reduce_scatter(*stream, all, own, Segments::equal(ranks, 1), dtype, op);
  EXPECT_EQ(load<T>(own.data()), load<T>(data.data())) << name(dtype) << " " << name(op);
  return load<T>(data.data());
}

TEST(Reductions, SixtyFourBitIntegersAreExact) {
  constexpr std::int64_t large = std::int64_t{1} << 58, most = std::numeric_limits<std::int64_t>::max();
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings)) {
      const int sign = rank % 2 == 0 ? 1 : -1;
      EXPECT_EQ(reduced_integer(*group, large + rank, ReduceOp::sum), ranks * large + ranks * (ranks - 1) / 2);
      EXPECT_EQ(reduced_integer(*group, sign * (most - rank), ReduceOp::max), most);
      EXPECT_EQ(reduced_integer(*group, sign * (most - rank), ReduceOp::min), ranks == 1 ? most : -(most - 1));
      EXPECT_EQ(reduced_integer(*group, rank == 0 ? large + 1 : -1, ReduceOp::prod),
                ranks % 2 == 0 ? -(large + 1) : large + 1);
    }
}

// Beyond the range integers wrap around, as MPI's do.
TEST(Reductions, IntegersWrapAround) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings)) {
      const auto times = static_cast<std::uint64_t>(ranks);
      EXPECT_EQ(reduced_integer(*group, most, ReduceOp::sum), static_cast<std::int64_t>(most * times));
      EXPECT_EQ(reduced_integer(*group, std::int32_t{2'000'000'000}, ReduceOp::sum),
                static_cast<std::int32_t>(2'000'000'000u * times));
      EXPECT_EQ(reduced_integer(*group, std::uint8_t{200}, ReduceOp::sum), static_cast<std::uint8_t>(200 * times));
      std::uint64_t power = 1;
      for (int r = 0; r < ranks; ++r)
        power *= 3'000'000'019u;
      EXPECT_EQ(reduced_integer(*group, std::int64_t{3'000'000'019}, ReduceOp::prod), static_cast<std::int64_t>(power));
      EXPECT_EQ(reduced_integer(*group, static_cast<std::int32_t>(3'000'000'019u), ReduceOp::prod),
                static_cast<std::int32_t>(power));
      EXPECT_EQ(reduced_integer(*group, static_cast<std::uint8_t>(3'000'000'019u & 255), ReduceOp::prod),
                static_cast<std::uint8_t>(power));
    }
}

// Complex numbers are pairs of f64.
TEST(Reductions, ComplexNumbersAsPairs) {
  const auto stream = runtime::make_host_compute_stream();
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings))
      for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
        constexpr std::int64_t numbers = 13;
        std::vector<double> mine, expected;
        const double divisor = op == ReduceOp::mean ? ranks : 1;
        for (std::int64_t k = 0; k < numbers; ++k) {
          mine.insert(mine.end(), {static_cast<double>(k + rank), static_cast<double>(-2 * k * rank)});
          const double ranks_sum = ranks * (ranks - 1) / 2;
          expected.insert(expected.end(), {(static_cast<double>(ranks * k) + ranks_sum) / divisor,
                                           static_cast<double>(-2 * k) * ranks_sum / divisor});
        }
        const Operand data = operand(mine, DType::f64);
        group->allreduce(*stream, data, 2 * numbers, DType::f64, op);
        EXPECT_EQ(values(data, 2 * numbers, DType::f64), expected);
      }
}

// A NaN of any rank is the maximum and the minimum on all of them, whatever MPI would make of it.
TEST(Reductions, ExtremesKeepNaN) {
  const auto stream = runtime::make_host_compute_stream();
  for (const MpiSettings settings : all_settings())
    for (const auto& group : all_groups("data", settings))
      for (const DType dtype : floating_types)
        for (const ReduceOp op : {ReduceOp::max, ReduceOp::min}) {
          SCOPED_TRACE(text(settings) + " " + name(dtype) + " " + name(op));
          std::vector<double> mine(static_cast<std::size_t>(ranks) + 1, rank);
          mine[static_cast<std::size_t>(rank)] = std::numeric_limits<double>::quiet_NaN(); // element r is rank r's
          const Operand data = operand(mine, dtype);
          group->allreduce(*stream, data, ranks + 1, dtype, op);
          const std::vector<double> result = values(data, ranks + 1, dtype);
          for (int r = 0; r < ranks; ++r)
            EXPECT_TRUE(std::isnan(result[static_cast<std::size_t>(r)])) << "of rank " << r;
          EXPECT_EQ(result.back(), op == ReduceOp::max ? ranks - 1 : 0);
        }
}

} // namespace
} // namespace ostraka::comm::test
