// SPDX-License-Identifier: Apache-2.0
// What only the node back end does. All ranks of a test stand on one node.
#include "group.hpp"
#include "support/rounds.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/comm/node/node.hpp>
#include <ostraka/comm/node/process.hpp>
#include <ostraka/comm/node/segment.hpp>

#include <chrono>
#include <filesystem>
#include <random>
#include <thread>

namespace ostraka::comm::test {
namespace {

class NodeTest : public testing::Test {
protected:
  void SetUp() override {
    if (ranks == 1)
      GTEST_SKIP() << "needs two ranks";
    group_ = node_group("node");
  }

  std::shared_ptr<Communicator> group_;
  std::shared_ptr<runtime::Stream> stream_ = runtime::make_host_compute_stream();
};

TEST_F(NodeTest, NothingHasANameInDevShm) {
  const std::string own = std::to_string(node::process_token());
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
    EXPECT_EQ(entry.path().string().find(own), std::string::npos) << entry.path();
}

TEST_F(NodeTest, AFullDevShmIsAnErrorAndTheArenaGoesOn) {
  const auto arena = node_arena();
  const std::int64_t before = arena->usage(memory::Kind::other).in_use;
  const std::int64_t too_much = node::free_shared_memory() + (std::int64_t{1} << 30);
  expect_error(Status::OUT_OF_MEMORY, [&] { memory::Storage(arena, too_much, memory::Kind::other); });
  EXPECT_EQ(arena->usage(memory::Kind::other).in_use, before);
  memory::Storage small(arena, 4096, memory::Kind::other);
  std::memset(small.data(), 1, 4096);
}

// More operations than a rank has slots, with delays that differ between ranks.
TEST_F(NodeTest, ManyOperationsInFlight) {
  const std::uint64_t seed = fresh_seed("ManyOperationsInFlight");
  std::mt19937 random(static_cast<unsigned>(seed + static_cast<std::uint64_t>(rank)));
  for (int round = 0; round < rounds(3); ++round) {
    const auto queue = runtime::make_host_queue("queue");
    std::vector<Operand> data;
    for (int k = 0; k < 100; ++k) {
      data.push_back(operand(10, rank + k, DType::f64));
      group_->allreduce(*queue, data.back(), 10, DType::f64, ReduceOp::sum);
      if (random() % 16 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    }
    runtime::synchronize(queue->record(), "queue");
    for (int k = 0; k < 100; ++k)
      for (const double value : values(data[static_cast<std::size_t>(k)], 10, DType::f64))
        ASSERT_EQ(value, ranks * k + ranks * (ranks - 1) / 2);
  }
}

TEST_F(NodeTest, SharedMemoryIsNotCopied) {
  const auto storage = std::make_shared<memory::Storage>(node_arena(), 1 << 20, memory::Kind::other);
  std::memset(storage->data(), 0, 1 << 20);
  const std::int64_t before = node_arena()->usage(memory::Kind::transient).peak;
  group_->allreduce(*stream_, {storage, 0}, 1 << 17, DType::f64, ReduceOp::sum);
  EXPECT_EQ(node_arena()->usage(memory::Kind::transient).peak, before);
}

// Without OSTRAKA_CHECK: identifiers are compared always.
TEST_F(NodeTest, ADifferentOrderIsSeenByAll) {
  const Operand a = operand(8, 1, DType::f64), b = operand(8, 2, DType::f64);
  const auto name = [](const char* text) { return std::make_shared<const std::string>(text); };
  const bool swaps = rank == ranks - 1;
  expect_error(
      Status::RANKS_DISAGREE,
      [&] { group_->allreduce(*stream_, swaps ? b : a, 8, DType::f64, ReduceOp::sum, name(swaps ? "B" : "A")); },
      {"operation 0", "node", "allreduce of 8 f64 of 'A'", "allreduce of 8 f64 of 'B'",
       "rank " + std::to_string(ranks - 1)});
  EXPECT_EQ(values(a, 8, DType::f64), std::vector<double>(8, 1));
  EXPECT_EQ(values(b, 8, DType::f64), std::vector<double>(8, 2));
  expect_error(Status::FAILED, [&] { group_->allreduce(*stream_, a, 8, DType::f64, ReduceOp::sum); },
               {"failed earlier", "'B'"});
}

// Rank 0 expects three elements of each peer, which send one fewer or nothing at all.
TEST_F(NodeTest, APeerThatSendsTooLittleIsAnError) {
  for (const std::int64_t sent : {0, 2}) {
    const auto group = node_group("short");
    std::vector<Transfer> sends, receives;
    for (int peer = 1; rank == 0 && peer < ranks; ++peer)
      receives.push_back({peer, 3 * peer, 3});
    if (rank != 0 && sent > 0)
      sends.push_back({0, 0, sent});
    const Operand in = operand(3, rank, DType::f64), out = operand(3 * ranks, -1, DType::f64);
    const auto move = [&] { group->exchange(*stream_, in, sends, out, receives, DType::f64, 0); };
    if (rank == 0)
      expect_error(Status::RANKS_DISAGREE, move,
                   {"exchange", "expected 3 elements from rank 1", "found " + std::to_string(sent)});
    else
      expect_error(Status::FAILED, move, {"rank 0 of the group gave up"});
    MPI_Barrier(MPI_COMM_WORLD);
  }
}

TEST_F(NodeTest, WhoGivesUpTellsTheOthers) {
  const Operand data = operand(8, 1, DType::f64);
  if (rank == 0) {
    const auto queue = runtime::make_host_queue("queue");
    group_->allreduce(*queue, data, 8, DType::f64, ReduceOp::sum);
    group_.reset(); // with the operation in flight, since the others wait below
    MPI_Barrier(MPI_COMM_WORLD);
    return;
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_error(Status::FAILED, [&] { group_->allreduce(*stream_, data, 8, DType::f64, ReduceOp::sum); },
               {"rank 0 of the group gave up", "destroyed with operations in flight"});
}

TEST_F(NodeTest, ARankThatDoesNotArriveIsATimeOut) {
  const Operand data = operand(8, 1, DType::f64);
  if (rank != 0) {
    const ScopedEnvironment limit("OSTRAKA_TIMEOUT_S", "0.3");
    expect_error(Status::TIME_OUT, [&] { group_->allreduce(*stream_, data, 8, DType::f64, ReduceOp::sum); },
                 {"node", "allreduce of 8 f64", "started"});
    expect_error(Status::FAILED, [&] { group_->allreduce(*stream_, data, 8, DType::f64, ReduceOp::sum); });
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_F(NodeTest, PretendNodes) {
  for (const int size : {1, 2, 3}) {
    const Node node(MPI_COMM_WORLD, size);
    EXPECT_EQ(node.size(), std::min(size, ranks - rank / size * size));
    EXPECT_EQ(node.id(), rank / size * size);
    const NodeMap map = map_nodes(MPI_COMM_WORLD, &node);
    EXPECT_EQ(map.nodes(), (ranks + size - 1) / size);
    EXPECT_EQ(map.node(rank), rank / size);
    EXPECT_EQ(map_nodes(node.ranks(), &node).nodes(), 1);
    EXPECT_EQ(map_nodes(MPI_COMM_WORLD, nullptr).nodes(), ranks);
    const NodeMap without = map_nodes(MPI_COMM_WORLD, node.id() == 0 ? nullptr : &node); // of the first node's memory
    EXPECT_EQ(without.nodes(), map.nodes() - 1 + std::min(size, ranks));
  }
}

} // namespace
} // namespace ostraka::comm::test
