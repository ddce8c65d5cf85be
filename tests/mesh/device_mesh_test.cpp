// SPDX-License-Identifier: Apache-2.0
// Coordinates against plain arithmetic, communicators against who is in them, and argument errors on all ranks.
#include "support/expect_error.hpp"
#include "support/scoped_environment.hpp"
#include "support/world.hpp"
#include <ostraka/mesh/device_mesh.hpp>

#include <algorithm>

namespace ostraka::mesh::test {
namespace {

using namespace ostraka::test;

/// All lists of `axes` sizes whose product is `product`.
std::vector<std::vector<int>> factorings(int product, int axes) {
  if (axes == 1)
    return {{product}};
  std::vector<std::vector<int>> all;
  for (int first = 1; first <= product; ++first)
    if (product % first == 0)
      for (std::vector<int> rest : factorings(product / first, axes - 1)) {
        rest.insert(rest.begin(), first);
        all.push_back(std::move(rest));
      }
  return all;
}

/// The world ranks in `group`, found by summing 2^rank over it.
std::int64_t members(comm::Communicator& group) {
  const auto storage = std::make_shared<memory::Storage>(memory::make_host_arena(), 8, memory::Kind::other);
  auto& mask = *reinterpret_cast<std::int64_t*>(storage->data());
  mask = std::int64_t{1} << rank;
  group.allreduce(*runtime::make_host_compute_stream(), {storage, 0}, 1, DType::i64, layout::ReduceOp::sum);
  return mask;
}

TEST(DeviceMesh, CoordinatesAndLines) {
  for (int axes = 1; axes <= 3; ++axes)
    for (const std::vector<int>& sizes : factorings(ranks, axes)) {
      const auto mesh = DeviceMesh::create(MPI_COMM_WORLD, sizes);
      ASSERT_EQ(mesh->dims(), axes);
      EXPECT_EQ(mesh->size(), ranks);
      EXPECT_EQ(mesh->rank(), rank);
      int number = 0;
      for (int axis = 0; axis < axes; ++axis) {
        EXPECT_EQ(mesh->axis_size(axis), sizes[axis]);
        EXPECT_EQ(mesh->position().sizes[axis], sizes[axis]);
        EXPECT_EQ(mesh->position().coordinates[axis], mesh->coordinate(axis));
        EXPECT_GE(mesh->coordinate(axis), 0);
        EXPECT_LT(mesh->coordinate(axis), sizes[axis]);
        number = number * sizes[axis] + mesh->coordinate(axis); // the last axis is the fastest
      }
      EXPECT_EQ(number, rank);
      const Communicators& own = mesh->communicators();
      EXPECT_EQ(members(*own.all), (std::int64_t{1} << ranks) - 1);
      ASSERT_EQ(own.gather.size(), sizes.size());
      ASSERT_EQ(own.reduce.size(), sizes.size());
      for (int axis = 0, stride = ranks; axis < axes; ++axis) {
        stride /= sizes[axis];
        std::int64_t line = 0;
        for (int i = 0; i < sizes[axis]; ++i)
          line |= std::int64_t{1} << (rank + (i - mesh->coordinate(axis)) * stride);
        EXPECT_NE(own.gather[axis], own.reduce[axis]);
        for (const auto& group : {own.gather[axis], own.reduce[axis]}) {
          EXPECT_EQ(group->rank(), mesh->coordinate(axis));
          EXPECT_EQ(group->size(), sizes[axis]);
          EXPECT_EQ(members(*group), line);
        }
      }
    }
}

TEST(DeviceMesh, NamesOfAxes) {
  const auto plain = DeviceMesh::create(MPI_COMM_WORLD, {1, ranks});
  EXPECT_EQ(plain->axis_name(0), "axis0");
  EXPECT_EQ(plain->axis("axis1"), 1);
  const auto named = DeviceMesh::create(MPI_COMM_WORLD, {ranks, 1}, {"replica", "shard"});
  EXPECT_EQ(named->axis("replica"), 0);
  EXPECT_EQ(named->axis("shard"), 1);
  EXPECT_EQ(named->axis_name(1), "shard");
  expect_error(Status::INVALID_ARGUMENT, [&] { named->axis("tensor"); }, {"tensor", "replica, shard"});
  for (const int axis : {-1, 2}) {
    expect_error(Status::INVALID_ARGUMENT, [&] { named->axis_size(axis); }, {std::to_string(axis)});
    expect_error(Status::INVALID_ARGUMENT, [&] { named->coordinate(axis); });
    expect_error(Status::INVALID_ARGUMENT, [&] { named->axis_name(axis); });
  }
}

TEST(DeviceMesh, LineOfAllRanks) {
  const auto plain = DeviceMesh::create_line(MPI_COMM_WORLD);
  EXPECT_EQ(plain->dims(), 1);
  EXPECT_EQ(plain->axis_size(0), ranks);
  EXPECT_EQ(plain->coordinate(0), rank);
  EXPECT_EQ(plain->axis_name(0), "axis0");
  EXPECT_EQ(DeviceMesh::create_line(MPI_COMM_WORLD, {"data"})->axis("data"), 0);
  expect_error(Status::INVALID_ARGUMENT, [] { DeviceMesh::create_line(MPI_COMM_WORLD, {"a", "b"}); }, {"1 axis names"});
  expect_error(Status::INVALID_ARGUMENT, [] { DeviceMesh::create_line(MPI_COMM_NULL); }, {"MPI_COMM_NULL"});
}

TEST(DeviceMesh, OwnersHaveCommunicatorsOfTheirOwn) {
  const auto mesh = DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {"data"});
  const Communicators first = mesh->make_communicators("context"), second = mesh->make_communicators("ddp");
  EXPECT_NE(first.all, second.all);
  EXPECT_NE(first.gather[0], mesh->communicators().gather[0]);
  EXPECT_NE(first.gather[0]->name().find("context"), std::string::npos);
  EXPECT_NE(first.gather[0]->name().find("data"), std::string::npos);
  EXPECT_NE(first.gather[0]->name(), first.reduce[0]->name());
  EXPECT_EQ(members(*second.reduce[0]), (std::int64_t{1} << ranks) - 1);
}

TEST(DeviceMesh, OfAPartOfTheWorld) {
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
  int size = 0;
  MPI_Comm_size(half, &size);
  const auto mesh = DeviceMesh::create(half, {size});
  MPI_Comm_free(&half); // the mesh has its own
  std::int64_t expected = 0;
  for (int other = rank % 2; other < ranks; other += 2)
    expected |= std::int64_t{1} << other;
  EXPECT_EQ(members(*mesh->communicators().all), expected);
  EXPECT_EQ(mesh->rank(), rank / 2);
}

TEST(DeviceMesh, CongruentMeshesHaveTheSameRanksInOneOrder) {
  const auto line = DeviceMesh::create(MPI_COMM_WORLD, {ranks}), again = DeviceMesh::create(MPI_COMM_WORLD, {ranks, 1});
  EXPECT_TRUE(line->is_congruent(*line));
  EXPECT_TRUE(line->is_congruent(*again));
  MPI_Comm reversed = MPI_COMM_NULL, part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &part);
  int size = 0;
  MPI_Comm_size(part, &size);
  EXPECT_EQ(line->is_congruent(*DeviceMesh::create(reversed, {ranks})), ranks == 1);
  EXPECT_EQ(line->is_congruent(*DeviceMesh::create(part, {size})), ranks == 1);
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&part);
}

TEST(DeviceMesh, FailuresOfCommunicatorsShow) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const ScopedEnvironment checks("OSTRAKA_CHECK", "1");
  const auto mesh = DeviceMesh::create(MPI_COMM_WORLD, {ranks});
  const Communicators first = mesh->make_communicators("first"), second = mesh->make_communicators("second");
  EXPECT_NE(first.scratch, second.scratch);
  const auto stream = runtime::make_host_compute_stream();
  const auto storage = std::make_shared<memory::Storage>(memory::make_host_arena(), 16, memory::Kind::other);
  const int count = rank == 0 ? 1 : 2;
  expect_error(Status::RANKS_DISAGREE,
               [&] {
                 first.reduce[0]->allreduce(*stream, {storage, 0}, count, DType::i64, layout::ReduceOp::sum);
               },
               {"allreduce of 1 i64", "allreduce of 2 i64"});
  EXPECT_TRUE(first.have_failed());
  EXPECT_FALSE(second.have_failed());
  EXPECT_FALSE(mesh->communicators().have_failed());
}

// "staged" is about memory of GPUs.
TEST(DeviceMesh, StagedSharesNodesOfHosts) {
  const auto shares = [](const char* backend) {
    const ScopedEnvironment scope("OSTRAKA_BACKEND", backend);
    return DeviceMesh::create(MPI_COMM_WORLD, {ranks}, {}, runtime::Device::host)->shares_nodes();
  };
  EXPECT_EQ(shares("staged"), shares("node"));
  EXPECT_FALSE(shares("mpi"));
  const ScopedEnvironment staged("OSTRAKA_BACKEND", "staged");
  EXPECT_TRUE(Settings::from_environment().shares_nodes);
}

struct Arguments {
  std::vector<int> sizes;
  std::vector<std::string> names;
};

std::vector<Arguments> wrong() {
  return {
      {{}, {}},
      {{ranks + 1}, {}},
      {{ranks, 2}, {}},
      {{0}, {}},
      {{-1, -ranks}, {}},
      {{1 << 30, 1 << 30, 1 << 30}, {}},
      {{ranks, 1}, {"one"}},
      {{ranks, 1}, {"same", "same"}},
      {{ranks, 1}, {"first", ""}},
  };
}

TEST(DeviceMesh, WrongArgumentsEverywhere) {
  for (const Arguments& arguments : wrong())
    expect_error(Status::INVALID_ARGUMENT,
                 [&] { DeviceMesh::create(MPI_COMM_WORLD, arguments.sizes, arguments.names); }, {"rank 0", "mesh: "});
  expect_error(Status::INVALID_ARGUMENT, [] { DeviceMesh::create(MPI_COMM_NULL, {1}); }, {"MPI_COMM_NULL"});
}

TEST(DeviceMesh, WrongArgumentsOnOneRankReachAll) {
  for (int culprit = 0; culprit < ranks; ++culprit)
    for (const Arguments& arguments : wrong()) {
      const Arguments mine = rank == culprit ? arguments : Arguments{{ranks, 1}, {"a", "b"}};
      expect_error(Status::INVALID_ARGUMENT, [&] { DeviceMesh::create(MPI_COMM_WORLD, mine.sizes, mine.names); },
                   {"rank " + std::to_string(culprit) + ":", "mesh: "});
    }
}

TEST(DeviceMesh, RanksDisagree) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  const auto create = [](std::vector<int> sizes, std::vector<std::string> names = {}) {
    return [=] { DeviceMesh::create(MPI_COMM_WORLD, sizes, names); };
  };
  const bool last = rank == ranks - 1;
  expect_error(Status::RANKS_DISAGREE, create(last ? std::vector{1, ranks} : std::vector{ranks, 1}), {"axis sizes"});
  expect_error(Status::RANKS_DISAGREE, create(last ? std::vector{ranks} : std::vector{ranks, 1}));
  expect_error(Status::RANKS_DISAGREE, create({ranks}, {last ? "data" : "model"}), {"names"});
  for (const char* setting : {"OSTRAKA_CHECK", "OSTRAKA_COUNT_LIMIT"}) {
    const ScopedEnvironment one_differs(setting, last ? "1" : nullptr);
    expect_error(Status::RANKS_DISAGREE, create({ranks}), {setting});
  }
  EXPECT_NO_THROW(create({ranks})()); // nothing is left behind
}

} // namespace
} // namespace ostraka::mesh::test
