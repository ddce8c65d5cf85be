// SPDX-License-Identifier: Apache-2.0
// One communicator, several streams: operations start in call order whatever stream is ready first.
#include "group.hpp"

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
    group->allreduce(*a, first, 4, DType::f64);
    group->allreduce(*b, second, 4, DType::f64);
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

// Random operations on three streams with random events between them, then all results at once.
void random_operations(Communicator& group, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 shared(static_cast<unsigned>(seed)); // equal on all ranks: what is called
  std::mt19937 local(static_cast<unsigned>(seed + 1 + static_cast<unsigned>(rank))); // who waits for what
  std::vector<std::shared_ptr<runtime::Stream>> streams;
  for (const char* stream : {"a", "b", "c"})
    streams.push_back(runtime::make_host_queue(stream));
  struct Result {
    Operand data;
    std::vector<double> expected;
  };
  std::vector<Result> results;
  std::vector<runtime::Event> events;
  for (int k = 0; k < 60; ++k) {
    runtime::Stream& stream = *streams[local() % 3]; // ranks may even use different streams
    if (!events.empty() && local() % 2 == 0)
      stream.wait(events[local() % events.size()]);
    const std::int64_t count = 1 + shared() % 40;
    const unsigned kind = shared() % 3;
    std::vector<double> mine, expected;
    for (std::int64_t i = 0; i < count; ++i)
      mine.push_back(1000 * rank + k + static_cast<double>(i));
    if (kind == 0) {
      const Operand data = operand(mine, DType::f64);
      group.allreduce(stream, data, count, DType::f64);
      for (std::int64_t i = 0; i < count; ++i)
        expected.push_back(1000 * ranks * (ranks - 1) / 2 + ranks * (k + static_cast<double>(i)));
      results.push_back({data, expected});
    } else if (kind == 1) {
      const Operand in = operand(mine, DType::f64), out = operand(count * ranks, -1, DType::f64);
      group.allgather(stream, in, out, count, DType::f64);
      for (int r = 0; r < ranks; ++r)
        for (std::int64_t i = 0; i < count; ++i)
          expected.push_back(1000 * r + k + static_cast<double>(i));
      results.push_back({out, expected});
    } else {
      const Operand in = operand(static_cast<std::int64_t>(count) * ranks, rank + k, DType::f32);
      const Operand out = operand(count, -1, DType::f32);
      group.reduce_scatter(stream, in, out, count, DType::f32);
      const Operand wide = operand(count, 0, DType::f64);
      stream.launch("widen", [=](const runtime::Execution&) {
        for (std::int64_t i = 0; i < count; ++i)
          set_element(wide.data(), i, DType::f64, element(out.data(), i, DType::f32));
      });
      results.push_back(
          {wide, std::vector<double>(static_cast<std::size_t>(count), ranks * k + ranks * (ranks - 1) / 2)});
    }
    events.push_back(stream.record());
    if (local() % 4 == 0)
      runtime::progress_all();
  }
  for (const auto& stream : streams)
    synchronize(stream->record(), "end");
  for (std::size_t k = 0; k < results.size(); ++k)
    EXPECT_EQ(values(results[k].data, static_cast<std::int64_t>(results[k].expected.size()), DType::f64),
              results[k].expected)
        << "operation " << k;
}

TEST(Order, RandomStreamsAndEvents) {
  for (const auto& group : all_groups("data"))
    for (const std::uint64_t seed : {std::uint64_t{1}, std::uint64_t{2}, fresh_seed("Order.RandomStreamsAndEvents")})
      random_operations(*group, seed);
}

// The two communicators of an axis do not wait for each other.
TEST(Order, CommunicatorsAreIndependent) {
  const auto gather = all_groups("gather"), reduce = all_groups("reduce");
  for (std::size_t i = 0; i < gather.size(); ++i) {
    const auto a = runtime::make_host_queue("a"), b = runtime::make_host_queue("b");
    const Operand first = operand(4, rank, DType::f64), second = operand(4, rank, DType::f64);
    Gate gate;
    a->wait(gate.event);
    gather[i]->allreduce(*a, first, 4, DType::f64);
    reduce[i]->allreduce(*b, second, 4, DType::f64);
    synchronize(b->record(), "b");
    EXPECT_EQ(values(second, 1, DType::f64)[0], ranks * (ranks - 1) / 2);
    EXPECT_EQ(values(first, 1, DType::f64)[0], rank);
    gate.open();
    synchronize(a->record(), "a");
    EXPECT_EQ(values(first, 1, DType::f64)[0], ranks * (ranks - 1) / 2);
  }
}

} // namespace
} // namespace ostraka::comm::test
