// SPDX-License-Identifier: Apache-2.0
// Streams, events and memory of a GPU, on the double of CUDA: what runs, in which order, what hosts wait for.
#include "fake_work.hpp"
#include "support/any_memory.hpp"
#include "support/double/double.hpp"
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/memory/pinned_pool.hpp>
#include <ostraka/runtime/cuda_double.hpp>
#include <ostraka/runtime/device.hpp>

#include <random>
#include <string>
#include <vector>

namespace ostraka::runtime::test {
namespace {

using ostraka::test::bytes_at;
using ostraka::test::CallerMemory;
using ostraka::test::expect_error;
using ostraka::test::ScopedEnvironment;

/// Says when the device comes to it.
void note(Stream& stream, std::string& order, char letter) {
  stream.launch("note", [&order, letter](const Execution& execution) {
    cuda_double::launch("note", execution.native, [&order, letter] { order += letter; });
  });
}

/// An event that the test completes by hand.
struct Gate {
  std::shared_ptr<Event::State> state = std::make_shared<Event::State>();
  Event event{state};
};

class Queued : public Task {
public:
  bool is_stream_ordered() const override { return true; }
};

// (While nothing uses one yet.)
TEST(CudaDevices, TheProgramSaysItFirst) {
  const ScopedEnvironment third("OSTRAKA_DEVICE", "cuda:3");
  EXPECT_EQ(cuda_device(), 3);
  select_cuda_device(2);
  EXPECT_EQ(cuda_device(), 2);
  const ScopedEnvironment wrong("OSTRAKA_DEVICE", "cuda:99"); // nobody asks
  EXPECT_EQ(cuda_device(), 2);
  EXPECT_NO_THROW(adopt_cuda_device(2));
  expect_error(Status::INVALID_STATE, [] { adopt_cuda_device(3); }, {"GPU 2", "Kokkos on GPU 3"});
  EXPECT_EQ(cuda_device(), 2);
}

TEST(CudaDevices, OneIsChosen) {
  EXPECT_TRUE(has_device(Device::cuda));
  EXPECT_EQ(compute_stream(Device::cuda)->device(), Device::cuda);
  EXPECT_EQ(compute_stream(Device::cuda), compute_stream(Device::cuda));
  EXPECT_NO_THROW(select_cuda_device(cuda_device()));
  expect_error(Status::INVALID_STATE, [&] { select_cuda_device(cuda_device() + 1); }, {"in use"});
  expect_error(Status::INVALID_ARGUMENT, [&] { select_cuda_device(99); }, {"0 to 15", "99"});
  const ScopedEnvironment none("OSTRAKA_DOUBLE_DEVICES", "0");
  EXPECT_FALSE(has_device(Device::cuda));
  expect_error(Status::NOT_SUPPORTED, [&] { require_device(Device::cuda, "mesh"); }, {"mesh", "no GPU"});
}

TEST(CudaStreams, RecordsArePoints) {
  const auto stream = make_queue(Device::cuda, "gather");
  std::string order;
  note(*stream, order, 'a');
  const Event end = stream->record();
  synchronize(end, "the end");
  EXPECT_EQ(order, "a");
}

TEST(CudaStreams, EventsOfTheDevice) {
  for (int repeat = 0; repeat < 50; ++repeat) {
    const auto a = make_queue(Device::cuda, "a"), b = make_queue(Device::cuda, "b");
    std::string order;
    note(*a, order, '1');
    b->wait(a->record());
    note(*b, order, '2');
    a->wait(b->record());
    note(*a, order, '3');
    b->wait(a->record());
    note(*b, order, '4');
    synchronize(b->record(), "b");
    EXPECT_EQ(order, "1234");
  }
}

TEST(CudaStreams, EventsOfTheHostHoldTheQueueUp) {
  const auto stream = make_queue(Device::cuda, "gather"), other = make_queue(Device::cuda, "other");
  const auto host = make_host_queue("host");
  Gate gate;
  std::string order;
  note(*stream, order, '1');
  stream->wait(gate.event);
  note(*stream, order, '2');
  const Event later = stream->record();
  other->wait(later); // has no place in a stream yet
  note(*other, order, '3');
  host->wait(other->record());
  host->launch("host", [&](const Execution&) { order += '4'; });
  for (int k = 0; k < 100; ++k)
    progress_all();
  EXPECT_EQ(order, "1");
  EXPECT_FALSE(later.is_done());
  gate.state->done = true;
  synchronize(host->record(), "host");
  EXPECT_EQ(order, "1234");
}

TEST(CudaStreams, TasksOfTheHostStartWhenTheDeviceIsThere) {
  const auto stream = make_queue(Device::cuda, "gather");
  std::string order;
  const auto task = std::make_shared<DelayedTask>(5);
  note(*stream, order, '1');
  stream->submit(task);
  note(*stream, order, '2');
  while (!task->is_ready()) {
    EXPECT_NE(order, "12");
    progress_all();
  }
  EXPECT_EQ(order, "1");
  synchronize(stream->record(), "gather");
  EXPECT_EQ(order, "12");
}

TEST(CudaStreams, OrderedTasksAreHandedTheStreamAtOnce) {
  const auto stream = make_queue(Device::cuda, "gather");
  std::string order;
  note(*stream, order, '1');
  const auto task = std::make_shared<Queued>();
  stream->submit(task);
  ASSERT_TRUE(task->is_ready());
  EXPECT_EQ(task->execution().device, Device::cuda);
  cuda_double::launch("task", task->execution().native, [&] { order += '2'; });
  note(*stream, order, '3'); // not before the task has queued what it has
  task->finish();
  synchronize(stream->record(), "gather");
  EXPECT_EQ(order, "123");
}

TEST(CudaStreams, UsersLiveUntilTheDeviceIsDone) {
  const auto stream = make_queue(Device::cuda, "gather");
  std::string order;
  auto user = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = user;
  stream->launch("use", [user = std::move(user), &order](const Execution& execution) {
    cuda_double::launch("use", execution.native, [&] { order += '1'; });
  });
  EXPECT_FALSE(watched.expired());
  synchronize(stream->record(), "gather");
  progress_all();
  EXPECT_TRUE(watched.expired());
  EXPECT_EQ(order, "1");
}

TEST(CudaStreams, ErrorsOfAQueueReachTheWaiter) {
  const auto queue = make_queue(Device::cuda, "gather");
  std::string order;
  queue->launch("bad", [](const Execution&) { fail(Status::USER_FAILURE, "disk is full"); });
  note(*queue, order, '1');
  expect_error(Status::USER_FAILURE, [&] { synchronize(queue->record(), "gather"); }, {"disk is full"});
  const auto other = make_queue(Device::cuda, "other");
  other->wait(queue->record());
  expect_error(Status::USER_FAILURE, [&] { synchronize(other->record(), "other"); }, {"disk is full"});
  EXPECT_EQ(order, "");
}

TEST(CudaStreams, ErrorsOfTheComputeStreamReachTheCallerOnce) {
  const auto compute = compute_stream(Device::cuda);
  expect_error(Status::USER_FAILURE,
               [&] { compute->launch("bad", [](const Execution&) { fail(Status::USER_FAILURE, "body"); }); }, {"body"});
  EXPECT_NO_THROW(synchronize(compute->record(), "compute"));
  compute->submit(
      std::make_shared<DelayedTask>(3, std::make_exception_ptr(Error(Status::USER_FAILURE, "the peer is gone"))));
  expect_error(Status::USER_FAILURE, [&] { synchronize(compute->record(), "compute"); }, {"the peer is gone"});
  std::string order;
  note(*compute, order, '1');
  EXPECT_NO_THROW(synchronize(compute->record(), "compute"));
  EXPECT_EQ(order, "1");
}

TEST(CudaStreams, UsersAreFreedWithTheStream) {
  auto queue = make_queue(Device::cuda, "gather");
  std::string order;
  auto user = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = user;
  queue->launch("use", [user = std::move(user), &order](const Execution& execution) {
    cuda_double::launch("use", execution.native, [&] { order += '1'; });
  });
  EXPECT_FALSE(watched.expired());
  queue.reset();
  EXPECT_EQ(order, "1");
  EXPECT_TRUE(watched.expired());
}

/// While it lives.
struct FailingCalls {
  FailingCalls() { ostraka::cuda_double::fail_calls(true); }
  ~FailingCalls() { ostraka::cuda_double::fail_calls(false); }
};

TEST(CudaStreams, NobodyWaitsForAnEventWithoutAPlace) {
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "5");
  const auto queue = make_queue(Device::cuda, "gather");
  Event end;
  {
    const FailingCalls failing;
    end = queue->record();
    EXPECT_TRUE(end.is_done());
  }
  expect_error(Status::FAILED, [&] { synchronize(end, "gather"); }, {"an event", "CUDA error"});
  expect_error(Status::FAILED, [&] { synchronize(queue->record(), "later"); }, {"an event"}); // as all errors of queues
  const auto compute = compute_stream(Device::cuda);
  {
    const FailingCalls failing;
    end = compute->record();
  }
  expect_error(Status::FAILED, [&] { synchronize(end, "compute"); }, {"an event"});
  EXPECT_NO_THROW(synchronize(compute->record(), "compute"));
}

TEST(CudaStreams, TasksStartWhereNoEventHasAPlace) {
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "5");
  const auto queue = make_queue(Device::cuda, "gather");
  const auto task = std::make_shared<DelayedTask>(3);
  {
    const FailingCalls failing;
    queue->submit(task);
  }
  EXPECT_TRUE(task->is_ready()); // peers count on it
  expect_error(Status::FAILED, [&] { synchronize(queue->record(), "gather"); }, {"an event", "CUDA error"});
}

TEST(CudaStreams, TimeOutGivesUpWhatIsQueued) {
  const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.1");
  const auto queue = make_queue(Device::cuda, "row gather");
  Gate never;
  std::string order;
  queue->wait(never.event);
  note(*queue, order, '1');
  expect_error(Status::TIME_OUT, [&] { synchronize(queue->record(), "unshard"); }, {"unshard", "row gather stream"});
  expect_error(Status::FAILED, [&] { synchronize(queue->record(), "again"); }, {"unshard"});
  EXPECT_EQ(order, "");
}

TEST(CudaStreams, TheCallersStreamComesBehindTheOld) {
  const auto others = make_queue(Device::cuda, "the caller's");
  void* native = nullptr;
  others->launch("native", [&](const Execution& execution) { native = execution.native; });
  std::string order;
  note(*compute_stream(Device::cuda), order, '1');
  set_compute_stream(native);
  note(*compute_stream(Device::cuda), order, '2');
  const Event end = compute_stream(Device::cuda)->record();
  set_compute_stream(nullptr);
  note(*compute_stream(Device::cuda), order, '3');
  synchronize(compute_stream(Device::cuda)->record(), "compute");
  EXPECT_TRUE(end.is_done());
  EXPECT_EQ(order, "123");
}

TEST(CudaMemory, CopiesBothWays) {
  const CallerMemory memory(Device::cuda, 100);
  EXPECT_TRUE(is_device_memory(memory.data()));
  std::vector<std::byte> values(100, std::byte{7});
  EXPECT_FALSE(is_device_memory(values.data()));
  copy_now(Device::cuda, values.data(), memory.data(), 100);
  EXPECT_EQ(memory.contents(), values);
  memory::PinnedPool pool;
  const auto pinned = pool.take(100);
  const std::byte* const address = pinned->data();
  copy_now(Device::cuda, memory.data(), pinned->data(), 100);
  EXPECT_EQ(bytes_at(pinned->data(), 100), values);
  EXPECT_NE(pool.take(100)->data(), address);
}

TEST(CudaMemory, ArenaGrowsAndTrims) {
  const auto arena = memory::make_arena(Device::cuda);
  EXPECT_EQ(arena->device(), Device::cuda);
  const auto first = arena->allocate(100, memory::Kind::parameters);
  const auto large = arena->allocate(1 << 22, memory::Kind::parameters);
  EXPECT_EQ(first.data + first.bytes, large.data);
  for (const auto& block : {first, large}) {
    const std::vector<std::byte> values(static_cast<std::size_t>(block.bytes), std::byte{3});
    ostraka::test::write_at(block.data, values.data(), block.bytes);
    EXPECT_EQ(bytes_at(block.data, block.bytes), values);
  }
  arena->release(large, memory::Kind::parameters);
  arena->trim();
  EXPECT_EQ(arena->reserved(), 128);
  const auto again = arena->allocate(1 << 22, memory::Kind::parameters);
  EXPECT_EQ(again.data, large.data);
  EXPECT_EQ(bytes_at(again.data, again.bytes).size(), static_cast<std::size_t>(1 << 22));
  expect_error(Status::OUT_OF_MEMORY, [&] { arena->allocate(std::int64_t{1} << 40, memory::Kind::other); }, {"arena"});
  EXPECT_EQ(ostraka::cuda_double::take_misuse(), "");
}

TEST(CudaMemory, ReleaseDoesNotThrow) {
  const ScopedEnvironment checks("OSTRAKA_CHECK", "1");
  const auto arena = memory::make_arena(Device::cuda);
  const auto block = arena->allocate(100, memory::Kind::other);
  const FailingCalls failing;
  EXPECT_NO_THROW(arena->release(block, memory::Kind::other));
  EXPECT_EQ(arena->usage(memory::Kind::other).in_use, 0);
}

// The double itself: what is wrong is said.
TEST(Double, FindsUseOfMemoryThatIsGone) {
  const auto stream = make_queue(Device::cuda, "gather");
  const auto arena = memory::make_arena(Device::cuda);
  const auto block = arena->allocate(100, memory::Kind::other);
  arena->release(block, memory::Kind::other);
  arena->trim();
  stream->launch("copy", [&](const Execution& execution) { copy(execution, block.data, block.data + 50, 50); });
  synchronize(stream->record(), "gather");
  EXPECT_NE(ostraka::cuda_double::take_misuse().find("no longer"), std::string::npos);
}

} // namespace
} // namespace ostraka::runtime::test
