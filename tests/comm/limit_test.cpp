// SPDX-License-Identifier: Apache-2.0
// What larger operations than MPI can count are cut into, seen in the calls that MPI gets. (The results are those of
// the other tests, which run with limits too.)
#include "support/mpi_calls.hpp"
#include "oracle.hpp"

namespace ostraka::comm::test {
namespace {

constexpr std::int64_t limits[] = {1, 7, 64};

double value(int r, std::int64_t i) { return static_cast<double>(r + i); }

std::int64_t parts(std::int64_t count, std::int64_t limit) { return (count + limit - 1) / limit; }

// Case 39 of the spec: 20 elements at limit 7.
TEST(Limit, TwentyElementsTakeThreeCalls) {
  const auto stream = runtime::make_host_compute_stream();
  const auto group = mpi_group("limited", {false, 7});
  const std::vector<std::int64_t> in_three{7, 7, 6};
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::mean}) {
    const Operand data = operand(generated(20, [](std::int64_t i) { return value(rank, i); }), DType::f64);
    mpi_calls = {};
    group->allreduce(*stream, data, 20, DType::f64, op);
    EXPECT_EQ(mpi_calls.counts, in_three);
    EXPECT_EQ(mpi_calls.of("MPI_Iallreduce"), 3);
    EXPECT_EQ(values(data, 20, DType::f64), all_reduced(op, DType::f64, 0, 20, value));
  }
  const Operand data = operand(generated(20, [](std::int64_t i) { return value(rank, i); }), DType::u8);
  mpi_calls = {};
  group->broadcast(*stream, data, 20, 0);
  EXPECT_EQ(mpi_calls.counts, in_three);
  EXPECT_EQ(mpi_calls.of("MPI_Ibcast"), 3);
  EXPECT_EQ(values(data, 20, DType::u8), generated(20, [](std::int64_t i) { return value(0, i); }));
}

TEST(Limit, OneCallWithoutIt) {
  const auto stream = runtime::make_host_compute_stream();
  const auto group = mpi_group("unlimited");
  const Segments equal = Segments::equal(ranks, 20), ragged = pieces_by([](int k) { return 20 + k; });
  const Operand in = operand(ragged.size(), 1, DType::f64), out = operand(ragged.size(), 1, DType::f64);
  mpi_calls = {};
  group->allreduce(*stream, in, 20, DType::f64, ReduceOp::sum);
  group->broadcast(*stream, in, 20, 0);
  group->allgather(*stream, in, out, equal, DType::f64);
  group->reduce_scatter(*stream, in, out, equal, DType::f64, ReduceOp::sum);
  std::map<std::string, int> expected{
      {"MPI_Iallreduce", 1}, {"MPI_Ibcast", 1}, {"MPI_Iallgather", 1}, {"MPI_Ireduce_scatter_block", 1}};
  EXPECT_EQ(mpi_calls.number, expected);
  mpi_calls = {};
  group->allgather(*stream, in, out, ragged, DType::f64);
  group->reduce_scatter(*stream, in, out, ragged, DType::f64, ReduceOp::sum);
  expected = {{"MPI_Iallgatherv", 1}, {"MPI_Ireduce_scatter", 1}};
  if (ranks == 1) // one piece is as long as all others
    expected = {{"MPI_Iallgather", 1}, {"MPI_Ireduce_scatter_block", 1}};
  EXPECT_EQ(mpi_calls.number, expected);
}

TEST(Limit, NoCallCountsFurther) {
  const auto stream = runtime::make_host_compute_stream();
  for (const std::int64_t limit : limits) {
    const auto group = mpi_group("limited", {false, limit});
    for (const Segments& segments : all_pieces())
      for (const DType dtype : {DType::f32, DType::bf16}) {
        SCOPED_TRACE("limit " + std::to_string(limit) + " " + text(segments) + " " + name(dtype));
        const std::int64_t size = segments.size();
        const Operand whole = operand(size, rank, dtype), own = operand(segments.range(rank).size(), 0, dtype);
        mpi_calls = {};
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
          group->reduce_scatter(*stream, whole, own, segments, dtype, op);
          group->allreduce(*stream, whole, size, dtype, op);
        }
        group->allgather(*stream, own, whole, segments, dtype);
        group->broadcast(*stream, whole, size * width_of(dtype), 0);
        EXPECT_LE(mpi_calls.largest, limit);
        EXPECT_FALSE(mpi_calls.number.empty());
      }
  }
}

// At the limit itself one call is enough, one element more takes another way.
TEST(Limit, IsReached) {
  const auto stream = runtime::make_host_compute_stream();
  const auto group = mpi_group("limited", {false, 5 * ranks});
  const Operand in = operand(8 * ranks, rank, DType::f64), out = operand(8 * ranks, 0, DType::f64);
  for (const std::int64_t length : {5, 6}) {
    mpi_calls = {};
    group->reduce_scatter(*stream, in, out, Segments::equal(ranks, length), DType::f64, ReduceOp::sum);
    EXPECT_EQ(mpi_calls.of("MPI_Ireduce_scatter_block"), length == 5 ? 1 : 0) << length;
    EXPECT_EQ(values(out, length, DType::f64),
              std::vector<double>(static_cast<std::size_t>(length), ranks * (ranks - 1) / 2));
  }
  for (const std::int64_t more : {0, 1}) { // 5 elements a rank in all, cut unequally, or one element more
    const Segments ragged = pieces_by([&](int k) { return 5 + (k == 0 ? -1 : k == ranks - 1 ? 1 + more : 0); });
    mpi_calls = {};
    group->reduce_scatter(*stream, in, out, ragged, DType::f64, ReduceOp::sum);
    EXPECT_EQ(mpi_calls.of("MPI_Ireduce_scatter"), ranks > 1 && more == 0 ? 1 : 0) << more;
    group->allgather(*stream, in, out, ragged, DType::f64);
    EXPECT_EQ(mpi_calls.of("MPI_Iallgatherv"), ranks > 1 && more == 0 ? 1 : 0) << more;
  }
  for (const std::int64_t length : {5 * ranks, 5 * ranks + 1}) {
    const Operand whole = operand(length * ranks, 0, DType::u8), own = operand(length, rank, DType::u8);
    mpi_calls = {};
    group->allgather(*stream, own, whole, Segments::equal(ranks, length), DType::u8);
    EXPECT_EQ(mpi_calls.of("MPI_Iallgather"), length == 5 * ranks ? 1 : 0) << length;
  }
}

// Reductions of our own go in rounds of at most the limit a piece; each round is one message to every peer that has
// something left, and one from every peer as long as there is something left here.
TEST(Limit, RoundsOfReductions) {
  const auto stream = runtime::make_host_compute_stream();
  const auto group = mpi_group("limited", {false, 7});
  for (const Segments& segments : {Segments::equal(ranks, 20), pieces_by([](int k) { return 9 * k; })}) {
    SCOPED_TRACE(text(segments));
    const std::int64_t own = segments.range(rank).size();
    const Operand in = operand(generated(segments.size(), [](std::int64_t i) { return value(rank, i); }), DType::f16);
    const Operand out = operand(own, 0, DType::f16);
    mpi_calls = {};
    group->reduce_scatter(*stream, in, out, segments, DType::f16, ReduceOp::sum);
    EXPECT_EQ(values(out, own, DType::f16), all_reduced(ReduceOp::sum, DType::f16, segments.begin(rank), own, value));
    std::int64_t sends = 0;
    for (int peer = 0; peer < ranks; ++peer)
      sends += peer == rank ? 0 : parts(segments.range(peer).size(), 7);
    EXPECT_EQ(mpi_calls.of("MPI_Isend"), sends);
    EXPECT_EQ(mpi_calls.of("MPI_Irecv"), (ranks - 1) * parts(own, 7));
  }
}

// Several at once, each of several rounds, before anyone waits: rounds of one must not meet those of another.
TEST(Limit, ManyInFlight) {
  for (const MpiSettings settings : {MpiSettings{false, 7}, MpiSettings{true, 7}}) {
    const auto group = mpi_group("limited", settings);
    const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
    std::vector<Operand> reduced, summed, sent;
    for (std::int64_t k = 0; k < 12; ++k) {
      const auto mine = [k](std::int64_t i) { return value(rank, i) + static_cast<double>(k); };
      reduced.push_back(operand(generated(40 + k, mine), DType::bf16));
      summed.push_back(operand(generated(40 + k, mine), DType::f64));
      sent.push_back(operand(generated(40 + k, mine), DType::u8));
      group->allreduce(*(k % 2 == 0 ? a : b), reduced.back(), 40 + k, DType::bf16, ReduceOp::max);
      group->allreduce(*(k % 3 == 0 ? a : b), summed.back(), 40 + k, DType::f64, ReduceOp::sum);
      group->broadcast(*(k % 5 == 0 ? a : b), sent.back(), 40 + k, static_cast<int>(k) % ranks);
    }
    synchronize(a->record(), "a");
    synchronize(b->record(), "b");
    for (std::size_t k = 0; k < 12; ++k) {
      const auto shift = static_cast<double>(k);
      const auto count = static_cast<std::int64_t>(40 + k);
      const auto shifted = [&](int r, std::int64_t i) { return value(r, i) + shift; };
      EXPECT_EQ(values(reduced[k], count, DType::bf16), all_reduced(ReduceOp::max, DType::bf16, 0, count, shifted));
      EXPECT_EQ(values(summed[k], count, DType::f64), all_reduced(ReduceOp::sum, DType::f64, 0, count, shifted));
      EXPECT_EQ(values(sent[k], count, DType::u8),
                generated(count, [&](std::int64_t i) { return shifted(static_cast<int>(k) % ranks, i); }));
    }
  }
}

// Without a limit rounds are bounded by their scratch memory: 32 MiB for what comes from all peers.
TEST(Limit, ScratchIsBounded) {
  if (ranks != 2)
    GTEST_SKIP() << "large; two ranks are enough";
  constexpr std::int64_t bytes = std::int64_t{1} << 25, length = bytes + 1000;
  const auto stream = runtime::make_host_compute_stream();
  const auto group = mpi_group("unlimited");
  const auto storage = std::make_shared<memory::Storage>(memory::make_host_arena(), 2 * length, memory::Kind::other);
  auto* data = reinterpret_cast<unsigned char*>(storage->data());
  for (std::int64_t i = 0; i < 2 * length; ++i)
    data[i] = static_cast<unsigned char>((i % 251) ^ (rank == 0 ? 0x80 : 0)); // 251: prime, no power of two repeats
  mpi_calls = {};
  const std::int64_t begin = rank * length;
  group->reduce_scatter(*stream, {storage, 0}, {storage, begin}, Segments::equal(2, length), DType::u8, ReduceOp::max);
  EXPECT_EQ(mpi_calls.of("MPI_Irecv"), 2);
  EXPECT_EQ(mpi_calls.largest_receive, bytes);
  std::int64_t wrong = 0;
  for (std::int64_t i = begin; i < begin + length; ++i)
    wrong += data[i] != std::max((i % 251), (i % 251) ^ 0x80);
  EXPECT_EQ(wrong, 0);
}

} // namespace
} // namespace ostraka::comm::test
