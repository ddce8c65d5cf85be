// SPDX-License-Identifier: Apache-2.0
// Order, events and errors of host streams.
#include "fake_work.hpp"
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/base/error.hpp>
#include <ostraka/runtime/stream.hpp>

#include <random>
#include <vector>

namespace ostraka::runtime::test {
namespace {

using ostraka::test::expect_error;
using ostraka::test::ScopedEnvironment;

/// An event that the test completes by hand.
struct Gate {
  std::shared_ptr<Event::State> state = std::make_shared<Event::State>();
  Event event{state};
  void open() { state->done = true; }
};

std::exception_ptr error_of(const char* text) { return std::make_exception_ptr(Error(Status::USER_FAILURE, text)); }

TEST(Events, DefaultIsComplete) {
  EXPECT_TRUE(Event().is_done());
  EXPECT_EQ(Event().error(), nullptr);
  EXPECT_NO_THROW(synchronize(Event(), "nothing"));
}

TEST(ComputeStream, RunsAtOnce) {
  const auto stream = make_host_compute_stream();
  EXPECT_EQ(stream->device(), Device::host);
  bool ran = false;
  stream->launch("kernel", [&](const Execution& execution) {
    ran = true;
    EXPECT_EQ(execution.device, Device::host);
  });
  EXPECT_TRUE(ran);
  EXPECT_TRUE(stream->record().is_done());
  expect_error(Status::USER_FAILURE,
               [&] { stream->launch("kernel", [](const Execution&) { fail(Status::USER_FAILURE, "body"); }); },
               {"body"});
}

TEST(ComputeStream, SubmitReturnsWhenComplete) {
  const auto stream = make_host_compute_stream();
  const auto task = std::make_shared<DelayedTask>(100);
  stream->submit(task);
  EXPECT_TRUE(task->is_done());
  expect_error(Status::USER_FAILURE,
               [&] { stream->submit(std::make_shared<DelayedTask>(3, error_of("the peer is gone"))); },
               {"the peer is gone"});
}

TEST(ComputeStream, WaitsForOtherStreams) {
  const auto compute = make_host_compute_stream();
  const auto queue = make_host_queue("gather");
  const auto task = std::make_shared<DelayedTask>(50);
  queue->submit(task);
  const Event event = queue->record();
  EXPECT_FALSE(event.is_done());
  compute->wait(event);
  EXPECT_TRUE(task->is_done());
}

TEST(Queue, RunsStepsInOrder) {
  const auto queue = make_host_queue("gather");
  EXPECT_EQ(queue->device(), Device::host);
  Gate gate;
  std::vector<int> order;
  const auto step = [&](int i) { queue->launch("step", [&order, i](const Execution&) { order.push_back(i); }); };
  step(0);
  queue->wait(gate.event);
  step(1);
  const auto task = std::make_shared<DelayedTask>(5);
  queue->submit(task);
  step(2);
  const Event end = queue->record();
  progress_all();
  EXPECT_EQ(order, std::vector<int>{0});
  EXPECT_FALSE(task->is_ready());
  gate.open();
  synchronize(end, "the end");
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  EXPECT_TRUE(task->is_done());
}

TEST(Queue, EventIsTheWorkBeforeIt) {
  const auto queue = make_host_queue("gather");
  Gate gate;
  const Event before = queue->record();
  queue->wait(gate.event);
  const Event after = queue->record();
  progress_all();
  EXPECT_TRUE(before.is_done());
  EXPECT_FALSE(after.is_done());
  gate.open();
  progress_all();
  EXPECT_TRUE(after.is_done());
}

TEST(Queue, TwoQueuesWaitForEachOther) {
  const auto a = make_host_queue("a"), b = make_host_queue("b");
  Gate gate;
  std::string order;
  const auto step = [&](const std::shared_ptr<Stream>& queue, char letter) {
    queue->launch("step", [&order, letter](const Execution&) { order += letter; });
  };
  a->wait(gate.event);
  step(a, '1');
  const Event first = a->record();
  b->wait(first);
  step(b, '2');
  const Event second = b->record();
  a->wait(second);
  step(a, '3');
  const Event third = a->record();
  b->wait(third);
  step(b, '4');
  progress_all();
  EXPECT_EQ(order, "");
  gate.open();
  synchronize(b->record(), "b");
  EXPECT_EQ(order, "1234");
}

// Three queues, events recorded and waited for at random: every wait sees what was queued before its record.
TEST(Queue, RandomEventsKeepTheirPromise) {
  const unsigned fresh = std::random_device{}();
  std::printf("RandomEventsKeepTheirPromise: seed %u\n", fresh);
  for (const unsigned seed : {1u, 2u, 3u, fresh}) {
    std::mt19937 random(seed);
    std::vector<std::shared_ptr<Stream>> queues;
    for (const char* name : {"a", "b", "c"})
      queues.push_back(make_host_queue(name));
    int step = 0;
    std::vector<bool> ran;
    std::vector<std::vector<int>> queued(3);                  // steps per queue
    std::vector<std::pair<Event, std::vector<int>>> recorded; // with the steps before it
    std::vector<std::shared_ptr<DelayedTask>> tasks;
    for (int i = 0; i < 300; ++i) {
      const std::size_t q = random() % 3;
      const unsigned choice = random() % 4;
      if (choice == 0)
        recorded.emplace_back(queues[q]->record(), queued[q]);
      else if (choice == 1 && !recorded.empty()) {
        const auto& [event, steps] = recorded[random() % recorded.size()];
        queues[q]->wait(event);
        queues[q]->launch("check", [&ran, steps = steps, seed](const Execution&) {
          for (const int s : steps)
            EXPECT_TRUE(ran[static_cast<std::size_t>(s)]) << "seed " << seed;
        });
      } else if (choice == 2) {
        queues[q]->submit(tasks.emplace_back(std::make_shared<DelayedTask>(static_cast<int>(random() % 5))));
      } else {
        ran.push_back(false);
        queued[q].push_back(step);
        queues[q]->launch("step", [&ran, &queued, s = step, q](const Execution&) {
          for (const int earlier : queued[q]) {
            if (earlier == s)
              break;
            EXPECT_TRUE(ran[static_cast<std::size_t>(earlier)]);
          }
          ran[static_cast<std::size_t>(s)] = true;
        });
        ++step;
      }
      if (random() % 8 == 0)
        progress_all();
    }
    for (const auto& queue : queues)
      synchronize(queue->record(), "the end");
    for (const bool done : ran)
      EXPECT_TRUE(done);
  }
}

TEST(Queue, ErrorReachesTheWaiter) {
  const auto queue = make_host_queue("gather"), other = make_host_queue("other");
  const Event before = queue->record();
  bool later_ran = false;
  queue->launch("bad", [](const Execution&) { fail(Status::USER_FAILURE, "disk is full"); });
  queue->launch("later", [&](const Execution&) { later_ran = true; });
  const Event after = queue->record();
  EXPECT_NO_THROW(synchronize(before, "before"));
  expect_error(Status::USER_FAILURE, [&] { synchronize(after, "after"); }, {"disk is full"});
  EXPECT_FALSE(later_ran);
  // It travels through events to other queues and to the compute stream.
  other->wait(after);
  other->launch("dependent", [&](const Execution&) { later_ran = true; });
  expect_error(Status::USER_FAILURE, [&] { synchronize(other->record(), "other"); }, {"disk is full"});
  expect_error(Status::USER_FAILURE, [&] { make_host_compute_stream()->wait(after); }, {"disk is full"});
  EXPECT_FALSE(later_ran);
}

TEST(Queue, ErrorOtherThanOursReachesTheWaiter) {
  const auto queue = make_host_queue("gather");
  queue->launch("bad", [](const Execution&) { throw std::length_error("vector"); });
  EXPECT_THROW(synchronize(queue->record(), "queue"), std::length_error);
}

TEST(Queue, ErrorThroughAnEventThatFailsLater) {
  const auto a = make_host_queue("a"), b = make_host_queue("b");
  a->submit(std::make_shared<DelayedTask>(20, error_of("truncated")));
  b->wait(a->record());
  bool ran = false;
  b->launch("dependent", [&](const Execution&) { ran = true; });
  expect_error(Status::USER_FAILURE, [&] { synchronize(b->record(), "b"); }, {"truncated"});
  EXPECT_FALSE(ran);
}

TEST(Queue, BodyMayWaitForAnotherQueue) {
  const auto a = make_host_queue("a"), b = make_host_queue("b");
  const auto task = std::make_shared<DelayedTask>(20);
  bool inside = false;
  b->submit(task);
  const Event event = b->record();
  a->launch("waits", [&](const Execution&) {
    EXPECT_FALSE(inside) << "entered twice";
    inside = true;
    synchronize(event, "b");
    inside = false;
  });
  synchronize(a->record(), "a");
  EXPECT_TRUE(task->is_done());
}

TEST(Queue, TimeOutNamesTheQueueAndGivesItsWorkUp) {
  const ScopedEnvironment scope("OSTRAKA_TIMEOUT_S", "0.1");
  const auto queue = make_host_queue("row gather"), idle = make_host_queue("idle");
  Gate never;
  bool ran = false;
  queue->wait(never.event);
  queue->launch("later", [&](const Execution&) { ran = true; });
  const Event end = queue->record();
  expect_error(Status::TIME_OUT, [&] { synchronize(end, "unshard"); }, {"unshard", "row gather stream: 3 steps"});
  EXPECT_TRUE(end.is_done());
  expect_error(Status::FAILED, [&] { synchronize(end, "again"); }, {"unshard"});
  never.open();
  queue->launch("later still", [&](const Execution&) { ran = true; });
  expect_error(Status::FAILED, [&] { synchronize(queue->record(), "later"); }, {"unshard"});
  EXPECT_FALSE(ran);
  EXPECT_NO_THROW(synchronize(idle->record(), "idle"));
}

// The last reference to an object that the wait loop polls may be held by a step of a queue.
TEST(Queue, StepMayHoldTheLastReference) {
  const auto queue = make_host_queue("copies");
  Gate gate;
  for (int i = 0; i < 20; ++i) {
    auto task = std::make_shared<DelayedTask>(1);
    queue->wait(gate.event);
    queue->submit(task);
    queue->launch("holds", [task](const Execution&) {});
  }
  gate.open();
  synchronize(queue->record(), "copies");
}

} // namespace
} // namespace ostraka::runtime::test
