// SPDX-License-Identifier: Apache-2.0
// OSTRAKA_CHECK=1: one rank calls something else. Every rank gets the same error, which names both operations; nothing
// moves, and the communicator is of no further use.
#include "oracle.hpp"

#include <functional>

namespace ostraka::comm::test {
namespace {

struct Buffers {
  Operand in = operand(12 * ranks, rank, DType::f64);
  Operand out = operand(12 * ranks, -1, DType::f64);
};

using Call = std::function<void(Communicator&, runtime::Stream&, const Buffers&)>;

struct Difference {
  Call usual, other;
  std::vector<std::string> texts; ///< in the error of every rank
};

Name named(const std::string& name) { return std::make_shared<const std::string>(name); }

Call allreduce(std::int64_t count, DType dtype, ReduceOp op, Name name = nullptr) {
  return [=](Communicator& group, runtime::Stream& stream, const Buffers& buffers) {
    group.allreduce(stream, buffers.out, count, dtype, op, name);
  };
}

Call broadcast(int root) {
  return [=](Communicator& group, runtime::Stream& stream, const Buffers& buffers) {
    group.broadcast(stream, buffers.out, 64, root);
  };
}

Call allgather(const Segments& pieces, Name name = nullptr) {
  return [=](Communicator& group, runtime::Stream& stream, const Buffers& buffers) {
    group.allgather(stream, buffers.in, buffers.out, pieces, DType::f64, name);
  };
}

Call reduce_scatter(const Segments& pieces, ReduceOp op = ReduceOp::sum, DType dtype = DType::f64) {
  return [=](Communicator& group, runtime::Stream& stream, const Buffers& buffers) {
    group.reduce_scatter(stream, buffers.in, buffers.out, pieces, dtype, op);
  };
}

// Rank r sends r + 1 elements to the next one: counts differ between the ranks, as they may.
Call exchange(std::int64_t agreement, DType dtype = DType::f32, Name name = nullptr) {
  return [=](Communicator& group, runtime::Stream& stream, const Buffers& buffers) {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    group.exchange(stream, buffers.in, {{next, 0, rank + 1}}, buffers.out, {{before, 0, before + 1}}, dtype, agreement,
                   name);
  };
}

std::vector<Difference> all_differences() {
  const Segments equal = Segments::equal(ranks, 4);
  const Segments rising = pieces_by([](int k) { return k == 0 ? 3 : k == ranks - 1 ? 5 : 4; });
  const Segments falling = pieces_by([](int k) { return k == 0 ? 5 : k == ranks - 1 ? 3 : 4; });
  const std::string whole = std::to_string(4 * ranks);
  const Call sum = allreduce(8, DType::f64, ReduceOp::sum);
  const std::string in_pieces = "f64 (in pieces or layouts that differ)";
  return {
      {sum, broadcast(0), {"allreduce of 8 f64", "broadcast of 64 u8"}},
      {allgather(equal), reduce_scatter(equal), {"allgather of " + whole + " f64", "reduce-scatter of " + whole}},
      {exchange(5), sum, {"exchange of ", " f32", "allreduce of 8 f64"}},
      {sum, allreduce(9, DType::f64, ReduceOp::sum), {"allreduce of 8 f64", "allreduce of 9 f64"}},
      {sum, allreduce(8, DType::i64, ReduceOp::sum), {"allreduce of 8 f64", "allreduce of 8 i64"}},
      {sum, allreduce(8, DType::f64, ReduceOp::max), {"allreduce of 8 f64", "(reductions ", "sum", "max", " and "}},
      {reduce_scatter(equal), reduce_scatter(equal, ReduceOp::mean), {"reduce-scatter of " + whole, "sum", "mean"}},
      {reduce_scatter(equal, ReduceOp::max, DType::bf16),
       reduce_scatter(equal, ReduceOp::max, DType::f16),
       {"reduce-scatter of " + whole + " bf16", "reduce-scatter of " + whole + " f16"}},
      {broadcast(0), broadcast(1), {"broadcast of 64 u8 (from rank ", " and from rank "}},
      {allgather(equal), allgather(rising), {"allgather of " + whole, in_pieces}},
      {allgather(rising), allgather(falling), {"allgather of " + whole, in_pieces}},
      {reduce_scatter(rising), reduce_scatter(falling), {"reduce-scatter of " + whole, in_pieces}},
      {allreduce(8, DType::f64, ReduceOp::sum, named("layer1")),
       allreduce(8, DType::f64, ReduceOp::sum, named("layer2")),
       {"allreduce of 8 f64 of 'layer1'", "allreduce of 8 f64 of 'layer2'"}},
      {allgather(equal, named("layer1")), allgather(equal), {"f64 of 'layer1'", whole + " f64"}},
      {exchange(5), exchange(6), {"exchange of ", " f32 (between layouts that differ)"}},
      {exchange(5), exchange(5, DType::i32), {" f32", " i32"}},
      {exchange(5, DType::f32, named("old")), exchange(5, DType::f32, named("new")), {"'old'", "'new'"}},
  };
}

void expect_parts(const Error& error, const std::vector<std::string>& parts) {
  for (const std::string& part : parts)
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << "'" << part << "' in: " << error.what();
}

/// Every rank makes its call; `deviant` makes the other one.
void expect_disagreement(const std::shared_ptr<Communicator>& group, const Difference& difference, int deviant) {
  const auto stream = runtime::make_host_compute_stream();
  const Buffers buffers, before;
  const Operand warm = operand(1, 1, DType::f64);
  group->allreduce(*stream, warm, 1, DType::f64, ReduceOp::sum);
  const int first = deviant == 0 ? 1 : deviant; // the first rank that differs from rank 0
  std::vector<std::string> parts = difference.texts;
  parts.insert(parts.end(), {"operation 1 ", "weights", "rank 0 called", "rank " + std::to_string(first) + " called"});
  try {
    (rank == deviant ? difference.other : difference.usual)(*group, *stream, buffers);
    ADD_FAILURE() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::RANKS_DISAGREE) << error.what();
    expect_parts(error, parts);
  }
  EXPECT_EQ(std::memcmp(buffers.in.data(), before.in.data(), static_cast<std::size_t>(before.in.storage->bytes())), 0);
  EXPECT_EQ(std::memcmp(buffers.out.data(), before.out.data(), static_cast<std::size_t>(before.out.storage->bytes())),
            0);
  for (int again = 0; again < 2; ++again)
    try {
      group->broadcast(*stream, warm, 8, 0);
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::FAILED) << error.what();
      expect_parts(error, parts); // the first cause
    }
  EXPECT_EQ(group->pending(), "");
}

TEST(Checks, EveryDifferenceIsFoundOnEveryRank) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  const std::vector<Difference> differences = all_differences();
  for (std::size_t k = 0; k < differences.size(); ++k)
    for (const int deviant : {0, ranks - 1})
      for (const MpiSettings settings : {checked, MpiSettings{true, 3}}) {
        SCOPED_TRACE("difference " + std::to_string(k) + " of rank " + std::to_string(deviant) + ", " + text(settings));
        expect_disagreement(mpi_group("weights", settings), differences[k], deviant);
        const auto node_of = nodes_by([](int r) { return r / 2; });
        expect_disagreement(hierarchical_group("weights", node_of, settings), differences[k], deviant);
      }
}

// Both calls of each pair are legal: with all ranks making either, they pass.
TEST(Checks, EqualCallsPass) {
  if (ranks == 1)
    GTEST_SKIP() << "there is no rank 1";
  for (const MpiSettings settings : {checked, MpiSettings{true, 3}}) {
    const auto group = mpi_group("weights", settings);
    const auto stream = runtime::make_host_compute_stream();
    for (const Difference& difference : all_differences())
      for (const Call& call : {difference.usual, difference.other})
        EXPECT_NO_THROW(call(*group, *stream, Buffers{}));
    EXPECT_EQ(group->failure(), "");
  }
}

// Exchanged orders of two operations that have nothing else in common than the communicator.
TEST(Checks, OtherOrderOnQueues) {
  if (ranks == 1)
    GTEST_SKIP() << "one rank agrees with itself";
  const auto group = mpi_group("weights", checked);
  const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
  const Operand agreed = operand(4, 1, DType::f64);
  const Operand gradient = operand(8, 1, DType::f64), weight = operand(8, rank, DType::f64);
  group->allreduce(*a, agreed, 4, DType::f64, ReduceOp::sum);
  synchronize(a->record(), "agreed");
  const auto reduce = [&] { group->allreduce(*a, gradient, 8, DType::f64, ReduceOp::sum, named("gradient")); };
  const auto send = [&] { group->broadcast(*b, weight, 64, 0, named("weight")); };
  std::string refusal;
  try { // a rank may learn of it between its two calls
    rank == 1 ? send() : reduce();
    rank == 1 ? reduce() : send();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::FAILED);
    refusal = error.what();
  }
  const runtime::Event end = (rank == 1 ? b : a)->record();
  expect_error(Status::RANKS_DISAGREE, [&] { synchronize(end, "end"); },
               {"allreduce of 8 f64 of 'gradient'", "broadcast of 64 u8 of 'weight'", "operation 1 "});
  EXPECT_TRUE(refusal.empty() || refusal.find("'gradient'") != std::string::npos) << refusal;
  EXPECT_EQ(values(agreed, 4, DType::f64), std::vector<double>(4, ranks));
  EXPECT_EQ(values(gradient, 8, DType::f64), std::vector<double>(8, 1));
  EXPECT_EQ(values(weight, 8, DType::f64), std::vector<double>(8, rank));
}

// What one communicator found does not touch others.
TEST(Checks, OtherCommunicatorsGoOn) {
  const auto failing = mpi_group("failing", checked), other = mpi_group("other", checked);
  const auto queue = runtime::make_host_queue("other");
  const Operand data = operand(8, 1, DType::f64), wrong = operand(8, 1, DType::f64);
  other->allreduce(*queue, data, 8, DType::f64, ReduceOp::sum);
  if (ranks > 1)
    expect_error(Status::RANKS_DISAGREE, [&] {
      failing->allreduce(*runtime::make_host_compute_stream(), wrong, rank == 0 ? 8 : 7, DType::f64, ReduceOp::sum);
    });
  other->allreduce(*queue, data, 8, DType::f64, ReduceOp::sum);
  synchronize(queue->record(), "other");
  EXPECT_EQ(values(data, 8, DType::f64), std::vector<double>(8, ranks * ranks));
}

TEST(Checks, LongNames) {
  const auto stream = runtime::make_host_compute_stream();
  const std::string begin(80, 'x');
  const auto same = mpi_group("weights", checked);
  EXPECT_NO_THROW(allreduce(8, DType::f64, ReduceOp::sum, named(begin + std::string(100, 'y')))(*same, *stream, {}));
  if (ranks == 1)
    return;
  const auto group = mpi_group("weights", checked);
  const Call call = allreduce(8, DType::f64, ReduceOp::sum, named(begin + (rank == 1 ? "1" : "0")));
  expect_error(Status::RANKS_DISAGREE, [&] { call(*group, *stream, {}); }, {begin + "1", begin + "0"});
}

} // namespace
} // namespace ostraka::comm::test
