// SPDX-License-Identifier: Apache-2.0
// One communicator, several streams: operations start in call order whatever stream is ready first.
#include "support/mpi_calls.hpp"
#include "oracle.hpp"

#include <optional>
#include <random>

namespace ostraka::comm::test {
namespace {

struct Gate {
  std::shared_ptr<runtime::Event::State> state = std::make_shared<runtime::Event::State>();
  runtime::Event event{state};
  void open() { state->done = true; }
};

TEST(Order, LaterStreamDoesNotOvertake) {
  for (const auto& group : all_groups("data")) {
    const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
    // Equal counts and types: an operation that overtook another would exchange data with it.
    const Operand first = operand(4, rank + 1, DType::f64), second = operand(4, 100 * (rank + 1), DType::f64);
    Gate gate;
    if (rank % 2 == 0)
      a->wait(gate.event); // ready late on even ranks
    group->allreduce(*a, first, 4, DType::f64, ReduceOp::sum);
    group->allreduce(*b, second, 4, DType::f64, ReduceOp::sum);
    const runtime::Event end_of_b = b->record();
    for (int i = 0; i < 50; ++i)
      runtime::progress_all();
    if (rank % 2 == 0) {
      EXPECT_FALSE(end_of_b.is_done());
      EXPECT_NE(group->pending().find("allreduce of 4 f64"), std::string::npos) << group->pending();
      EXPECT_NE(group->pending().find("and 1 more"), std::string::npos) << group->pending();
      EXPECT_NE(group->pending().find("data"), std::string::npos) << group->pending();
    }
    gate.open();
    synchronize(a->record(), "a");
    synchronize(end_of_b, "b");
    const double sum = ranks * (ranks + 1) / 2;
    EXPECT_EQ(values(first, 4, DType::f64), std::vector<double>(4, sum));
    EXPECT_EQ(values(second, 4, DType::f64), std::vector<double>(4, 100 * sum));
    EXPECT_EQ(group->pending(), "");
  }
}

// Or nothing would overlap with what the caller does until it waits.
TEST(Order, StartsAtOnce) {
  const auto group = mpi_group("data");
  const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
  for (const auto& queue : {a, b}) {
    mpi_calls = {};
    group->allreduce(*queue, operand(40'000, 1, DType::f64), 40'000, DType::f64, ReduceOp::sum);
    EXPECT_EQ(mpi_calls.of("MPI_Iallreduce"), 1);
  }
  synchronize(a->record(), "a");
  synchronize(b->record(), "b");
}

TEST(Order, AddressIsReadAtTheStart) {
  for (const auto& group : all_groups("data")) {
    const auto queue = runtime::make_host_queue("a");
    const auto arena = memory::make_host_arena();
    const auto storage = std::make_shared<memory::Storage>(arena, 64, memory::Kind::other, false);
    group->broadcast(*runtime::make_host_compute_stream(), operand(1, 1, DType::f64), 8, 0);
    queue->launch("allocate", [storage](const runtime::Execution&) {
      storage->reallocate();
      for (int i = 0; i < 8; ++i)
        set_element(storage->data(), i, DType::f64, rank * 8 + i);
    });
    group->broadcast(*queue, {storage, 0}, 64, ranks - 1);
    synchronize(queue->record(), "queue");
    for (int i = 0; i < 8; ++i)
      EXPECT_EQ(element(storage->data(), i, DType::f64), (ranks - 1) * 8 + i);
  }
}

// What a random operation leaves, and where.
struct Result {
  Operand data;
  DType dtype;
  std::vector<double> expected;
};

/// Queues operation `k` of the kind and size that `shared` says, equal on all ranks.
Result random_operation(Communicator& group, runtime::Stream& stream, std::mt19937& shared, int k) {
  constexpr DType dtype = DType::f64;
  const std::int64_t count = 1 + shared() % 40;
  const auto value = [k](int r, std::int64_t i) { return 1000 * r + k + static_cast<double>(i); };
  const auto mine = [&](std::int64_t size) { return generated(size, [&](std::int64_t i) { return value(rank, i); }); };
  const Name name = shared() % 2 == 0 ? nullptr : std::make_shared<const std::string>("operation " + std::to_string(k));
  const Segments pieces = pieces_by([&](int r) { return (r + k) % 3 == 0 ? 0 : count + r; });
  const std::int64_t own = pieces.range(rank).size();
  switch (shared() % 6) {
  case 0: {
    const Operand data = operand(mine(count), dtype);
    group.allreduce(stream, data, count, dtype, ReduceOp::sum, name);
    return {data, dtype, all_reduced(ReduceOp::sum, dtype, 0, count, value)};
  }
  case 1: {
    const Operand in = operand(mine(own), dtype), out = operand(pieces.size(), -1, dtype);
    group.allgather(stream, in, out, pieces, dtype, name);
    std::vector<double> expected;
    for (int r = 0; r < ranks; ++r)
      for (std::int64_t i = 0; i < pieces.range(r).size(); ++i)
        expected.push_back(value(r, i));
    return {out, dtype, expected};
  }
  case 2: { // and a kernel behind it
    const Operand in = operand(mine(count * ranks), dtype), out = operand(count, -1, dtype);
    const Operand narrow = operand(count, 0, DType::f32);
    group.reduce_scatter(stream, in, out, Segments::equal(ranks, count), dtype, ReduceOp::min, name);
    stream.launch("narrow", [=](const runtime::Execution&) {
      for (std::int64_t i = 0; i < count; ++i)
        set_element(narrow.data(), i, DType::f32, element(out.data(), i, dtype));
    });
    return {narrow, DType::f32, all_reduced(ReduceOp::min, dtype, rank * count, count, value)};
  }
  case 3: {
    const auto small = [k](int r, std::int64_t i) { return static_cast<double>((r + k + i) % 8); };
    const Operand data = operand(generated(count, [&](std::int64_t i) { return small(rank, i); }), DType::bf16);
    group.allreduce(stream, data, count, DType::bf16, ReduceOp::mean, name);
    return {data, DType::bf16, all_reduced(ReduceOp::mean, DType::bf16, 0, count, small)};
  }
  case 4: {
    const int root = k % ranks;
    const Operand data = operand(mine(count), dtype);
    group.broadcast(stream, data, count * 8, root, name);
    return {data, dtype, generated(count, [&](std::int64_t i) { return value(root, i); })};
  }
  default: {
    const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
    const Operand in = operand(mine(count), dtype), out = operand(count, -1, dtype);
    group.exchange(stream, in, {{next, 0, count}}, out, {{before, 0, count}}, dtype, count, name);
    return {out, dtype, generated(count, [&](std::int64_t i) { return value(before, i); })};
  }
  }
}

// Random operations on three streams with random events between them, then all results at once.
void random_operations(Communicator& group, std::uint64_t seed) {
  std::mt19937 shared(static_cast<unsigned>(seed)); // equal on all ranks: what is called
  std::mt19937 local(static_cast<unsigned>(seed + 1 + static_cast<unsigned>(rank))); // who waits for what
  std::vector<std::shared_ptr<runtime::Stream>> streams;
  for (const char* stream : {"a", "b", "c"})
    streams.push_back(runtime::make_host_queue(stream));
  std::vector<Result> results;
  std::vector<runtime::Event> events;
  for (int k = 0; k < 60; ++k) {
    runtime::Stream& stream = *streams[local() % 3]; // ranks may even use different streams
    if (!events.empty() && local() % 2 == 0)
      stream.wait(events[local() % events.size()]);
    results.push_back(random_operation(group, stream, shared, k));
    events.push_back(stream.record());
    if (local() % 4 == 0)
      runtime::progress_all();
  }
  for (const auto& stream : streams)
    synchronize(stream->record(), "end");
  for (std::size_t k = 0; k < results.size(); ++k)
    EXPECT_EQ(values(results[k].data, static_cast<std::int64_t>(results[k].expected.size()), results[k].dtype),
              results[k].expected)
        << "operation " << k;
}

TEST(Order, RandomStreamsAndEvents) {
  for (const std::uint64_t seed : {std::uint64_t{1}, fresh_seed("Order.RandomStreamsAndEvents")})
    for (const MpiSettings settings : all_settings())
      for (const auto& group : all_groups("data", settings)) {
        SCOPED_TRACE("seed " + std::to_string(seed) + " " + text(settings));
        random_operations(*group, seed);
      }
}

// The two communicators of an axis do not wait for each other.
TEST(Order, CommunicatorsAreIndependent) {
  const auto gather = all_groups("gather"), reduce = all_groups("reduce");
  for (std::size_t i = 0; i < gather.size(); ++i) {
    const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
    const Operand first = operand(4, rank, DType::f64), second = operand(4, rank, DType::f64);
    Gate gate;
    a->wait(gate.event);
    gather[i]->allreduce(*a, first, 4, DType::f64, ReduceOp::sum);
    reduce[i]->allreduce(*b, second, 4, DType::f64, ReduceOp::sum);
    synchronize(b->record(), "b");
    EXPECT_EQ(values(second, 1, DType::f64)[0], ranks * (ranks - 1) / 2);
    EXPECT_EQ(values(first, 1, DType::f64)[0], rank);
    gate.open();
    synchronize(a->record(), "a");
    EXPECT_EQ(values(first, 1, DType::f64)[0], ranks * (ranks - 1) / 2);
  }
}

/// The sum over `group` of a large vector of rank + `shift`: beyond what MPI buffers.
struct LargeSum {
  static constexpr std::int64_t count = 30'000;
  Operand data;

  LargeSum(Communicator& group, runtime::Stream& stream, double shift)
      : data(operand(count, rank + shift, DType::f64)) {
    group.allreduce(stream, data, count, DType::f64, ReduceOp::sum);
  }
  void expect(double sum) const { EXPECT_EQ(values(data, count, DType::f64), std::vector<double>(count, sum)); }
};

// Orders count within a communicator only.
TEST(Order, TwoCommunicatorsInEitherOrder) {
  for (const MpiSettings settings : {plain, checked, MpiSettings{false, 4000}}) {
    SCOPED_TRACE(text(settings));
    const auto first = mpi_group("first", settings), second = mpi_group("second", settings);
    const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
    std::optional<LargeSum> one, other;
    for (const bool is_first : {rank % 2 == 0, rank % 2 != 0})
      is_first ? one.emplace(*first, *a, 0.0) : other.emplace(*second, *b, 5.0);
    synchronize((rank % 2 == 0 ? a : b)->record(), "own first");
    synchronize((rank % 2 == 0 ? b : a)->record(), "own second");
    one->expect(ranks * (ranks - 1) / 2);
    other->expect(ranks * (ranks - 1) / 2 + 5 * ranks);
  }
}

/// The group of ranks `low` and `high`; null on others. Collective.
std::shared_ptr<Communicator> pair_group(int low, int high, MpiSettings settings) {
  MPI_Comm pair = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == low || rank == high ? 0 : MPI_UNDEFINED, rank, &pair);
  if (pair == MPI_COMM_NULL)
    return nullptr;
  return make_mpi_communicator(pair, "pair " + std::to_string(low) + "-" + std::to_string(high), settings);
}

// Four ranks, each of which waits for one neighbour while the other one waits for it (design section 3): whoever waits
// must also serve what was queued before.
TEST(Order, CycleOfWaits) {
  if (ranks < 4)
    GTEST_SKIP() << "needs four ranks";
  constexpr int cycle[] = {0, 1, 3, 2};
  for (const MpiSettings settings : {plain, checked, MpiSettings{false, 4000}}) {
    SCOPED_TRACE(text(settings));
    std::shared_ptr<Communicator> ahead, behind; // with the rank after this one in the cycle, and with the one before
    int after = -1, before = -1;
    for (int k = 0; k < 4; ++k) {
      const int low = cycle[k], high = cycle[(k + 1) % 4];
      const auto group = pair_group(low, high, settings);
      if (rank == low)
        ahead = group, after = high;
      if (rank == high)
        behind = group, before = low;
    }
    if (ahead == nullptr)
      continue;
    const auto queue = runtime::make_host_queue("queue");
    const LargeSum one(*behind, *queue, 0), two(*behind, *queue, 100);
    bool ran = false;
    queue->launch("kernel", [&](const runtime::Execution&) { ran = true; });
    const LargeSum three(*behind, *queue, 200);
    const auto stream = runtime::make_host_compute_stream();
    for (const double shift : {0, 100, 200}) // waits while its own queue has work for the rank before
      LargeSum(*ahead, *stream, shift).expect(rank + after + 2 * shift);
    synchronize(queue->record(), "queue");
    EXPECT_TRUE(ran);
    one.expect(rank + before);
    two.expect(rank + before + 200);
    three.expect(rank + before + 400);
  }
}

} // namespace
} // namespace ostraka::comm::test
