// SPDX-License-Identifier: Apache-2.0
// Saves that go on while weights change: what was there at the start is saved.
#include "checkpoint_test.hpp"
#include "faulty.hpp"
#include "support/mpi_calls.hpp"
#include "support/scoped_environment.hpp"

namespace ostraka::checkpoint::test {
namespace {

class Async : public testing::Test {
protected:
  void expect_saved(int salt) {
    Content loaded = content_of(make_plain_state(mesh_, 0));
    load(path_, loaded);
    expect_state(loaded.states[0], salt, "loaded");
  }

  SharedFolder folder_;
  Meshes meshes_;
  MeshPtr mesh_ = meshes_.first(ranks);
  std::string path_ = folder_.file("a.h5");
};

TEST_F(Async, WeightsMayChangeAtOnce) {
  save(path_, content_of(make_plain_state(mesh_, 1)));
  Faulty faulty;
  faulty.hold(true);
  const Content content = content_of(make_plain_state(mesh_, 2));
  const auto in_flight = AsyncSave::start(path_, content);
  clear(content.states[0]);
  std::int64_t bytes = 0;
  for (const DBuffer& buffer : {content.states[0].main_weight, content.states[0].state.at("exp_avg")})
    for (int i = 0; i < 3; ++i)
      bytes += buffer.tensor_range(i).count * 8;
  EXPECT_EQ(in_flight->staging_bytes(), bytes / 2 * 3) << "one copy of weights and two states";
  EXPECT_FALSE(in_flight->test());
  EXPECT_FALSE(in_flight->is_done());
  expect_saved(1); // the old file, until the new one is complete
  faulty.hold(false);
  in_flight->wait();
  EXPECT_TRUE(in_flight->is_done());
  EXPECT_TRUE(in_flight->test());
  in_flight->wait();
  expect_saved(2);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.h5"});
}

TEST_F(Async, OneInFlight) {
  Faulty faulty;
  faulty.hold(true);
  const Content content = content_of(make_plain_state(mesh_, 2));
  auto first = AsyncSave::start(path_, content);
  const std::string other = folder_.file("b.h5");
  expect_error(Status::INVALID_STATE, [&] { AsyncSave::start(other, content); }, {other, path_, "in flight"});
  expect_error(Status::INVALID_STATE, [&] { save(other, content); }, {other, path_, "in flight"});
  faulty.hold(false);
  first->wait();
  save(other, content); // the handle need not be gone
  first = AsyncSave::start(path_, content);
  first->wait();
  expect_saved(2);
}

// It is in flight on some ranks only, and all are told.
TEST_F(Async, OneInFlightOnFewerRanks) {
  if (ranks < 3)
    GTEST_SKIP() << "needs three ranks";
  Faulty faulty;
  faulty.hold(true);
  const MeshPtr pair = meshes_.first(2);
  const auto first = pair ? AsyncSave::start(path_, content_of(make_plain_state(pair, 2))) : nullptr;
  const Content content = content_of(make_plain_state(mesh_, 3));
  const std::string other = folder_.file("b.h5");
  expect_error(Status::INVALID_STATE, [&] { save(other, content); }, {other, path_, "in flight"});
  expect_error(Status::INVALID_STATE, [&] { AsyncSave::start(other, content); }, {other, path_, "in flight"});
  faulty.hold(false);
  if (first)
    first->wait();
  save(other, content);
  expect_saved(2);
}

TEST_F(Async, DroppedOnOneRank) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const Content content = content_of(make_plain_state(mesh_, 2));
  auto in_flight = AsyncSave::start(path_, content);
  if (rank == 0)
    in_flight.reset();
  const std::string other = folder_.file("b.h5");
  expect_error(Status::INVALID_STATE, [&] { save(other, content); }, {other, path_, "in flight"});
  in_flight.reset();
  save(path_, content);
  expect_saved(2);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.h5"});
}

TEST_F(Async, TestFindsTheEnd) {
  const auto in_flight = AsyncSave::start(path_, content_of(make_plain_state(mesh_, 2)));
  while (!in_flight->test()) {
  }
  expect_saved(2);
}

TEST_F(Async, ErrorsComeOnce) {
  save(path_, content_of(make_plain_state(mesh_, 1)));
  Faulty faulty;
  if (rank == ranks - 1)
    faulty.fail("fsync", 1, EIO);
  const auto in_flight = AsyncSave::start(path_, content_of(make_plain_state(mesh_, 2)));
  expect_error(Status::INPUT_OUTPUT, [&] { in_flight->wait(); }, {path_, "rank " + std::to_string(ranks - 1)});
  EXPECT_TRUE(in_flight->is_done());
  in_flight->wait();
  MPI_Barrier(MPI_COMM_WORLD); // rank 0 removes its file
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.h5"});
  expect_saved(1);
  AsyncSave::start(path_, content_of(make_plain_state(mesh_, 3)))->wait();
  expect_saved(3);
}

TEST_F(Async, DroppedWithoutWaiting) {
  save(path_, content_of(make_plain_state(mesh_, 1)));
  { const auto dropped = AsyncSave::start(path_, content_of(make_plain_state(mesh_, 2))); }
  MPI_Barrier(MPI_COMM_WORLD);
  EXPECT_EQ(folder_.names(), std::vector<std::string>{"a.h5"});
  expect_saved(1);
  save(path_, content_of(make_plain_state(mesh_, 3)));
  expect_saved(3);
}

// A rank whose disk is slow is no time-out of the others, which ask again and again.
TEST_F(Async, SlowDiskOfOneRank) {
  const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "1");
  Faulty faulty;
  faulty.hold(rank == 0);
  const auto in_flight = AsyncSave::start(path_, content_of(make_plain_state(mesh_, 2)));
  std::thread later([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    faulty.hold(false);
  });
  in_flight->wait();
  later.join();
  expect_saved(2);
}

// The helper thread leaves MPI alone: between start and wait nothing is called.
TEST_F(Async, NoMpiWhileInFlight) {
  Faulty faulty;
  faulty.hold(true);
  const auto in_flight = AsyncSave::start(path_, content_of(make_plain_state(mesh_, 2)));
  MPI_Barrier(MPI_COMM_WORLD);
  mpi_calls = {};
  faulty.hold(false);
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE(mpi_calls.number.empty());
  in_flight->wait();
}

} // namespace
} // namespace ostraka::checkpoint::test
