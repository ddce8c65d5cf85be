// SPDX-License-Identifier: Apache-2.0
#include "support/expect_error.hpp"
#include <ostraka/memory/scratch.hpp>
#include <ostraka/runtime/progress.hpp>

namespace ostraka::memory::test {
namespace {

using ostraka::test::expect_error;

struct ScratchTest : testing::Test {
  std::int64_t in_use() const { return arena->usage(Kind::transient).in_use; }
  std::shared_ptr<Storage> use(std::int64_t bytes, runtime::Stream& stream) {
    return Scratch::Use(scratch, arena, bytes, stream).storage();
  }

  std::shared_ptr<Arena> arena = make_host_arena();
  std::shared_ptr<runtime::Stream> first = runtime::make_host_queue("first"),
                                   second = runtime::make_host_queue("second");
  Scratch scratch;
};

TEST_F(ScratchTest, IsKeptForTheNext) {
  EXPECT_EQ(in_use(), 0);
  const auto storage = use(640, *first);
  EXPECT_EQ(storage->bytes(), 640);
  EXPECT_EQ(storage->kind(), Kind::transient);
  for (const std::int64_t bytes : {640, 64, 0, 639}) {
    EXPECT_EQ(use(bytes, *first), storage);
    EXPECT_EQ(use(bytes, *second), storage);
  }
  EXPECT_EQ(in_use(), 640);
  EXPECT_EQ(arena->growths(), 1);
}

TEST_F(ScratchTest, LargerNeedsAndOtherArenasReplaceIt) {
  const auto small = use(64, *first);
  const auto large = use(128, *first);
  EXPECT_NE(small, large);
  EXPECT_FALSE(small->is_allocated()); // given back although this test still holds it
  EXPECT_EQ(in_use(), 128);
  const auto other_arena = make_host_arena();
  EXPECT_EQ(Scratch::Use(scratch, other_arena, 64, *first).storage()->arena(), other_arena);
  EXPECT_EQ(in_use(), 0);
  scratch.release();
  EXPECT_EQ(other_arena->usage(Kind::transient).in_use, 0);
  scratch.release(); // nothing to do
  EXPECT_TRUE(use(64, *first)->is_allocated());
}

// The second user starts when the first is complete, whichever queue it is on.
TEST_F(ScratchTest, UsersComeOneAfterTheOther) {
  const auto state = std::make_shared<runtime::Event::State>();
  std::string order;
  {
    const Scratch::Use held(scratch, arena, 64, *first);
    first->wait(runtime::Event(state));
    first->launch("first", [&](const runtime::Execution&) { order += "1"; });
  }
  {
    const Scratch::Use held(scratch, arena, 64, *second);
    second->launch("second", [&](const runtime::Execution&) { order += "2"; });
  }
  runtime::progress_all();
  EXPECT_EQ(order, "");
  state->done = true;
  scratch.release(); // waits
  EXPECT_EQ(order, "12");
  EXPECT_EQ(in_use(), 0);
}

TEST_F(ScratchTest, FailuresReachLaterUsers) {
  {
    const Scratch::Use held(scratch, arena, 64, *first);
    first->launch("fails", [](const runtime::Execution&) { fail(Status::COMMUNICATION, "broken wire"); });
  }
  const auto storage = use(64, *second);
  bool ran = false;
  second->launch("later", [&](const runtime::Execution&) { ran = true; });
  expect_error(Status::COMMUNICATION, [&] { runtime::synchronize(second->record(), "test"); }, {"broken wire"});
  EXPECT_FALSE(ran);
  expect_error(Status::COMMUNICATION, [&] { scratch.release(); }, {"broken wire"});
  expect_error(Status::COMMUNICATION, [&] { use(128, *first); }, {"broken wire"});
  EXPECT_TRUE(storage->is_allocated()); // somebody may still write into it
  EXPECT_EQ(in_use(), 64);
}

TEST_F(ScratchTest, OutOfMemoryLeavesItUsable) {
  use(64, *first);
  expect_error(Status::OUT_OF_MEMORY, [&] { use(std::int64_t{1} << 60, *first); });
  EXPECT_EQ(in_use(), 0);
  EXPECT_EQ(use(64, *first)->bytes(), 64);
}

} // namespace
} // namespace ostraka::memory::test
