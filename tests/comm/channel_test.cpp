// SPDX-License-Identifier: Apache-2.0
// The protocol of a node with ranks as threads of one process, for the thread sanitizer: random delays at every step,
// memory overwritten as soon as the protocol says that it may be.
#include <ostraka/comm/node/channel.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace ostraka::comm::node::test {
namespace {

constexpr int rounds = 300, elements = 64;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

std::unique_ptr<std::byte, Free> shared_memory(int ranks) {
  const auto bytes = static_cast<std::size_t>((Channel::bytes(ranks) + 127) / 128 * 128);
  std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(std::aligned_alloc(128, bytes)));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

class Rank {
public:
  Rank(std::byte* memory, int rank, int ranks, std::vector<std::vector<std::int64_t>>& data)
      : channel_(memory, rank, ranks), memory_(data), random_(static_cast<unsigned>(rank + 100 * ranks)) {}

  // Round k: every rank offers values of its own and reads those of all, twice. Two operations are in flight at a time.
  void run() {
    for (int round = 0; round < rounds; ++round) {
      wait([&] { return channel_.can_publish(round); });
      std::vector<std::int64_t>& own = input(channel_.rank(), round);
      for (int i = 0; i < elements; ++i)
        own[i] = value(channel_.rank(), round, i);
      delay();
      Notice notice;
      notice.list_size = round;
      channel_.publish(round, notice);
      if (round > 0)
        work(round - 1);
    }
    work(rounds - 1);
  }

  int wrong() const { return wrong_; }

private:
  static std::int64_t value(int rank, int round, int i) { return 1000000 * (rank + 1) + 1000 * round + i; }
  std::vector<std::int64_t>& input(int rank, int round) { return memory_[4 * rank + round % 2]; }
  std::vector<std::int64_t>& landing(int rank, int round) { return memory_[4 * rank + 2 + round % 2]; }

  void work(int round) {
    wait([&] { return channel_.all_published(round); });
    for (int peer = 0; peer < channel_.size(); ++peer) {
      delay();
      wrong_ += channel_.notice(peer, round).list_size != round;
      for (int i = 0; i < elements; ++i)
        wrong_ += input(peer, round)[i] != value(peer, round, i);
    }
    fetch(round);
    delay();
    channel_.finish(round);
    wait([&] { return channel_.all_finished(round); });
    for (auto* own : {&input(channel_.rank(), round), &landing(channel_.rank(), round)}) // they are ours again
      own->assign(elements, -1);
  }

  // What every rank has for the others only now.
  void fetch(int round) {
    for (int i = 0; i < elements; ++i)
      landing(channel_.rank(), round)[i] = -value(channel_.rank(), round, i);
    delay();
    channel_.land(round);
    wait([&] { return channel_.all_landed(round); });
    for (int peer = 0; peer < channel_.size(); ++peer)
      for (int i = 0; i < elements; ++i)
        wrong_ += landing(peer, round)[i] != -value(peer, round, i);
  }

  template <class Condition>
  void wait(Condition&& condition) {
    while (!condition())
      std::this_thread::yield();
  }
  void delay() {
    if (random_() % 64 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 200));
  }

  Channel channel_;
  std::vector<std::vector<std::int64_t>>& memory_;
  std::mt19937 random_;
  int wrong_ = 0;
};

TEST(Channel, NobodyReadsWhatIsNotThereOrOverwritesWhatIsRead) {
  for (const int ranks : {2, 3, 5}) {
    SCOPED_TRACE(std::to_string(ranks) + " ranks");
    const auto memory = shared_memory(ranks);
    std::vector<std::vector<std::int64_t>> data(4 * static_cast<std::size_t>(ranks),
                                                std::vector<std::int64_t>(elements));
    std::vector<std::unique_ptr<Rank>> all;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      all.push_back(std::make_unique<Rank>(memory.get(), rank, ranks, data));
    for (const auto& rank : all)
      threads.emplace_back([&rank] { rank->run(); });
    for (std::thread& thread : threads)
      thread.join();
    for (const auto& rank : all)
      EXPECT_EQ(rank->wrong(), 0);
  }
}

TEST(Channel, ASlotWaitsUntilAllHaveFinished) {
  const auto memory = shared_memory(2);
  Channel first(memory.get(), 0, 2), second(memory.get(), 1, 2);
  std::int64_t sequence = 0;
  for (; first.can_publish(sequence); ++sequence) {
    first.publish(sequence, {});
    first.finish(sequence);
    ASSERT_LT(sequence, 1000);
  }
  EXPECT_GT(sequence, 1);
  second.publish(0, {});
  second.finish(0);
  EXPECT_TRUE(first.can_publish(sequence));
  EXPECT_FALSE(first.can_publish(sequence + 1));
  EXPECT_FALSE(first.all_finished(1));
}

TEST(Channel, TheFirstFailureIsToldToAll) {
  const auto memory = shared_memory(2);
  Channel first(memory.get(), 0, 2), second(memory.get(), 1, 2);
  EXPECT_NO_THROW(first.expect_alive());
  second.fail_all(1, "the disk is full");
  first.fail_all(0, "something else");
  for (const Channel* channel : {&first, &second})
    try {
      channel->expect_alive();
      ADD_FAILURE() << "no failure is told";
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), Status::FAILED);
      EXPECT_NE(std::string(error.what()).find("rank 1 of the group gave up: the disk is full"), std::string::npos);
    }
}

} // namespace
} // namespace ostraka::comm::node::test
