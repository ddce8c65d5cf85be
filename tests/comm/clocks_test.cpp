// SPDX-License-Identifier: Apache-2.0
// Readers and writers of memory that a node shares, with ranks as threads of one process, for the thread sanitizer:
// random programs, random delays at every step of the protocol, every value read compared with a serial reference.
#include <ostraka/comm/node/clocks.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace ostraka::comm::node::test {
namespace {

constexpr int num_regions = 3, part = 16, steps = 120;

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

std::unique_ptr<std::byte, Free> shared_memory(int ranks) {
  const auto bytes = static_cast<std::size_t>((Clocks::bytes(ranks) + 127) / 128 * 128);
  std::unique_ptr<std::byte, Free> memory(static_cast<std::byte*>(std::aligned_alloc(128, bytes)));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

enum class Action { begin_read, end_read, write };
struct Step {
  Action action;
  int region;
};

// What a training code does: uses that overlap, updates of what nobody uses, now and then twice in a row.
std::vector<Step> random_program(unsigned seed) {
  std::mt19937 random(seed);
  std::vector<Step> program;
  std::vector<bool> is_read(num_regions);
  for (int i = 0; i < steps; ++i) {
    const int region = static_cast<int>(random() % num_regions);
    if (is_read[region]) {
      program.push_back({Action::end_read, region});
      is_read[region] = false;
    } else if (random() % 3 == 0) {
      program.push_back({Action::write, region});
    } else {
      program.push_back({Action::begin_read, region});
      is_read[region] = true;
    }
  }
  return program;
}

class Rank {
public:
  Rank(std::byte* memory, int rank, int ranks, std::vector<std::vector<std::int64_t>>& data, unsigned seed)
      : clocks_(memory, rank, ranks), data_(data), random_(seed + 1000 * static_cast<unsigned>(rank)) {
    for (int region = 0; region < num_regions; ++region)
      regions_.emplace_back(clocks_, static_cast<std::uint32_t>(region));
  }

  void run(const std::vector<Step>& program) {
    std::vector<std::int64_t> versions(num_regions);
    for (const Step& step : program) {
      RegionClock& region = regions_[step.region];
      delay();
      if (step.action == Action::begin_read) {
        wait([&] { return region.may_read(); });
        expect_version(step.region, versions[step.region]);
      } else if (step.action == Action::end_read) {
        expect_version(step.region, versions[step.region]); // still
        region.released();
      } else {
        wait([&] { return region.may_write(); });
        write(step.region, ++versions[step.region]);
        region.written();
      }
    }
  }

  int wrong() const { return wrong_; }

private:
  void write(int region, std::int64_t version) {
    for (int i = 0; i < part; ++i) {
      data_[region][clocks_.rank() * part + i] = version;
      if (i == part / 2)
        delay();
    }
  }

  void expect_version(int region, std::int64_t version) {
    for (const std::int64_t value : data_[region])
      wrong_ += value != version;
  }

  template <class Condition>
  void wait(Condition&& condition) {
    while (!condition())
      std::this_thread::yield();
  }

  void delay() {
    if (random_() % 16 == 0)
      std::this_thread::sleep_for(std::chrono::microseconds(random_() % 100));
  }

  Clocks clocks_;
  std::vector<RegionClock> regions_;
  std::vector<std::vector<std::int64_t>>& data_;
  std::mt19937 random_;
  int wrong_ = 0;
};

TEST(Clocks, ReadersSeeTheLastUpdateAndNothingElse) {
  for (const int ranks : {2, 3, 4})
    for (unsigned seed = 0; seed < 40; ++seed) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, seed " + std::to_string(seed));
      const auto memory = shared_memory(ranks);
      const std::vector<Step> program = random_program(seed);
      std::vector<std::vector<std::int64_t>> data(num_regions,
                                                  std::vector<std::int64_t>(static_cast<std::size_t>(ranks * part)));
      std::vector<std::unique_ptr<Rank>> all;
      for (int rank = 0; rank < ranks; ++rank)
        all.push_back(std::make_unique<Rank>(memory.get(), rank, ranks, data, seed));
      std::vector<std::thread> threads;
      for (const auto& rank : all)
        threads.emplace_back([&] { rank->run(program); });
      for (std::thread& thread : threads)
        thread.join();
      for (const auto& rank : all)
        EXPECT_EQ(rank->wrong(), 0);
    }
}

TEST(Clocks, WaitsAreForTheSlowestRank) {
  const auto memory = shared_memory(3);
  Clocks first(memory.get(), 0, 3), second(memory.get(), 1, 3), third(memory.get(), 2, 3);
  RegionClock mine(first, 0), second_region(second, 0), third_region(third, 0);
  EXPECT_TRUE(mine.may_read());
  EXPECT_TRUE(mine.may_write());
  mine.written();
  EXPECT_FALSE(mine.may_read());
  EXPECT_EQ(first.first_behind(1), 1);
  second_region.written();
  EXPECT_EQ(first.first_behind(1), 2);
  third_region.written();
  EXPECT_TRUE(mine.may_read());
  mine.released();
  EXPECT_TRUE(mine.may_read()); // again
  EXPECT_FALSE(mine.may_write());
  third_region.released();
  EXPECT_FALSE(mine.may_write());
  second_region.released();
  EXPECT_TRUE(mine.may_write());
}

TEST(Clocks, PaceIsKeptByThoseLessThanAStretchAhead) {
  const auto memory = shared_memory(2);
  Clocks own(memory.get(), 0, 2), peer(memory.get(), 1, 2);
  const Event release{Event::Kind::release, 0};
  Pace pace(own);
  for (int stretch = 0; stretch < 3; ++stretch) {
    pace.begin_stretch();
    EXPECT_EQ(pace.is_kept(), stretch < 2) << stretch;
    own.tick(release);
    own.tick(release); // of two groups
  }
  peer.tick(release);
  EXPECT_FALSE(pace.is_kept());
  peer.tick(release);
  EXPECT_TRUE(pace.is_kept());
  pace.begin_stretch();
  EXPECT_FALSE(pace.is_kept());
  peer.tick(release);
  peer.tick(release);
  EXPECT_TRUE(pace.is_kept());
  own.tick(release); // a write, say: nobody waits for it
  EXPECT_TRUE(pace.is_kept());
}

TEST(Clocks, AnotherEventAtTheSameNumberIsSeen) {
  const auto memory = shared_memory(2);
  Clocks first(memory.get(), 0, 2), second(memory.get(), 1, 2);
  RegionClock first_a(first, 0), second_a(second, 0), second_b(second, 1);
  first_a.written();
  second_a.written();
  EXPECT_EQ(first.first_different(first_a.last_write(), first_a.write_event()), 2);
  first_a.written();
  second_b.written();
  EXPECT_EQ(first.first_different(first_a.last_write(), first_a.write_event()), 1);
  EXPECT_EQ(first.event(1, 2), (Event{Event::Kind::write, 1}));
  // What the peer did long ago has left its place, and is not taken for what stands there now.
  for (std::int64_t i = 0; i < Clocks::remembered; ++i)
    second_b.released();
  EXPECT_EQ(first.first_different(first_a.last_write(), first_a.write_event()), 2);
}

} // namespace
} // namespace ostraka::comm::node::test
