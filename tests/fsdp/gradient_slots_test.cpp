// SPDX-License-Identifier: Apache-2.0
// The ring of gradient slots on one rank.
#include <ostraka/fsdp/gradient_slots.hpp>
#include <ostraka/runtime/device.hpp>
#include <ostraka/runtime/progress.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>

namespace ostraka::fsdp::test {
namespace {

using memory::Kind;
using runtime::Event;

/// An event that is complete when the test says so.
struct Reduction {
  std::shared_ptr<Event::State> state = std::make_shared<Event::State>();
  Event event{state};
};

/// Completes a reduction after it was polled a number of times: shows that somebody waited.
class Delayed final : public runtime::Progressable {
public:
  explicit Delayed(Reduction& reduction) : reduction_(reduction) {}
  void progress() noexcept override {
    if (++polls_ == 5)
      reduction_.state->done = true;
  }
  std::string pending() const override { return ""; }
  void abandon(const std::string&) noexcept override {}

private:
  Reduction& reduction_;
  int polls_ = 0;
};

struct Ring {
  explicit Ring(int count) : slots(arena, count) { slots.reserve(256, count); }
  std::int64_t in_use() const { return arena->usage(Kind::transient).in_use; }

  std::shared_ptr<memory::Arena> arena = memory::make_host_arena();
  GradientSlots slots;
};

TEST(GradientSlots, MemoryIsTakenAtUse) {
  Ring ring(2);
  EXPECT_EQ(ring.in_use(), 0);
  const int slot = ring.slots.acquire(*runtime::compute_stream(runtime::Device::host));
  EXPECT_EQ(ring.in_use(), 256);
  EXPECT_EQ(ring.slots.storage(slot)->bytes(), 256);
  EXPECT_TRUE(ring.slots.storage(slot)->is_allocated());
}

TEST(GradientSlots, EqualRequestsAlternate) {
  for (const int count : {1, 2, 3}) {
    Ring ring(count);
    std::vector<int> order;
    for (int i = 0; i < 3 * count; ++i) {
      order.push_back(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)));
      ring.slots.release(order.back(), Event());
    }
    EXPECT_EQ(std::set<int>(order.begin(), order.end()).size(), static_cast<std::size_t>(count));
    for (int i = count; i < 3 * count; ++i)
      EXPECT_EQ(order[i], order[i - count]);
    EXPECT_EQ(ring.in_use(), count * 256);
  }
}

TEST(GradientSlots, AProducerWaitsForTheReductionOfItsSlot) {
  Ring ring(1);
  Reduction reduction;
  ring.slots.release(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)), reduction.event);
  const Delayed delayed(reduction);
  ring.slots.acquire(*runtime::compute_stream(runtime::Device::host));
  EXPECT_TRUE(reduction.event.is_done());
}

TEST(GradientSlots, AProducerWithAFreeSlotDoesNotWait) {
  Ring ring(2);
  Reduction reduction;
  ring.slots.release(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)), reduction.event);
  const Delayed delayed(reduction);
  ring.slots.release(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)), Event());
  EXPECT_FALSE(reduction.event.is_done());
}

TEST(GradientSlots, MoreModulesWithUsesToComeThanSlots) {
  Ring ring(2);
  const std::set<int> bound{ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)),
                            ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)),
                            ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)),
                            ring.slots.acquire(*runtime::compute_stream(runtime::Device::host))};
  EXPECT_EQ(bound.size(), 4u);
  EXPECT_EQ(ring.in_use(), 4 * 256);
  ring.slots.release(2, Event());
  EXPECT_EQ(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)), 2); // the only one that is free
}

TEST(GradientSlots, ABoundSlotIsNeverHandedOutAgain) {
  Ring ring(2);
  const int kept = ring.slots.acquire(*runtime::compute_stream(runtime::Device::host));
  for (int i = 0; i < 5; ++i) {
    const int slot = ring.slots.acquire(*runtime::compute_stream(runtime::Device::host));
    EXPECT_NE(slot, kept);
    ring.slots.release(slot, Event());
  }
}

TEST(GradientSlots, AnErrorOfTheReductionReachesTheNextProducer) {
  Ring ring(1);
  Reduction reduction;
  reduction.state->done = true;
  reduction.state->error = std::make_exception_ptr(std::runtime_error("lost"));
  ring.slots.release(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)), reduction.event);
  EXPECT_THROW(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)), std::runtime_error);
}

TEST(GradientSlots, ReleaseStorageGivesAllBackAndTheRingGoesOn) {
  Ring ring(2);
  for (int i = 0; i < 2; ++i)
    ring.slots.release(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)), Event());
  ring.slots.release_storage();
  EXPECT_EQ(ring.in_use(), 0);
  ring.slots.acquire(*runtime::compute_stream(runtime::Device::host));
  EXPECT_EQ(ring.in_use(), 256);
}

// Set-up takes what a step needs: no more than it has groups, no more than the ring has slots.
TEST(GradientSlots, ReserveGrowsTheArenaOnce) {
  for (const int needed : {0, 1, 3, 7}) {
    const auto arena = memory::make_host_arena();
    GradientSlots slots(arena, 3);
    slots.reserve(256, needed);
    EXPECT_EQ(arena->reserved(), 256 * std::min(needed, 3));
    EXPECT_EQ(arena->usage(Kind::transient).in_use, 0);
    const int growths = arena->growths();
    for (int slot = 0; slot < std::min(needed, 3); ++slot)
      slots.acquire(*runtime::compute_stream(runtime::Device::host));
    EXPECT_EQ(arena->growths(), growths);
  }
}

// Modules around others keep their slots meanwhile, so a small ring needs room for all of them.
TEST(GradientSlots, ReserveHasRoomForAllThatAreBoundAtOnce) {
  const auto arena = memory::make_host_arena();
  GradientSlots slots(arena, 2);
  slots.reserve(256, 5, 4);
  EXPECT_EQ(arena->reserved(), 256 * 4);
  const int growths = arena->growths();
  for (int slot = 0; slot < 4; ++slot)
    slots.acquire(*runtime::compute_stream(runtime::Device::host));
  EXPECT_EQ(arena->growths(), growths);
}

// The largest gradient decides, and one slot there is.
TEST(GradientSlots, ABoundOnBytesMakesTheRingShorter) {
  const auto slots_of = [](std::int64_t most_bytes, std::int64_t bytes) {
    const auto arena = memory::make_host_arena();
    GradientSlots slots(arena, 4, most_bytes);
    slots.reserve(64, 4);
    slots.reserve(bytes, 4);
    std::set<int> used;
    for (int i = 0; i < 10; ++i) {
      const int slot = slots.acquire(*runtime::compute_stream(runtime::Device::host));
      used.insert(slot);
      slots.release(slot, Event());
    }
    EXPECT_EQ(arena->reserved(), std::max<std::int64_t>(4 * 64, static_cast<std::int64_t>(used.size()) * bytes));
    return static_cast<int>(used.size());
  };
  EXPECT_EQ(slots_of(1024, 256), 4);
  EXPECT_EQ(slots_of(1023, 256), 3);
  EXPECT_EQ(slots_of(511, 256), 1);
  EXPECT_EQ(slots_of(0, 256), 1);
  EXPECT_EQ(slots_of(1 << 20, 256), 4);
}

TEST(GradientSlots, ReserveKeepsTheLargest) {
  Ring ring(1);
  ring.slots.reserve(1024, 1);
  ring.slots.reserve(64, 1);
  EXPECT_EQ(ring.slots.storage(ring.slots.acquire(*runtime::compute_stream(runtime::Device::host)))->bytes(), 1024);
}

} // namespace
} // namespace ostraka::fsdp::test
