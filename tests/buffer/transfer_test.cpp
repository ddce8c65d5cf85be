// SPDX-License-Identifier: Apache-2.0
// redistribute_into: from any layout and placements to any other.
#include "buffer_test.hpp"
#include "support/scoped_environment.hpp"

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> mixed{{7, 3}, {2, 5}, {}, {0, 4}, {9}};

/// A value for each element of each tensor, by place in `layout`.
Values by_tensor(const GlobalLayout& layout, double shift = 0) {
  return [&layout, shift](std::int64_t i) {
    for (int t = 0; t < layout.num_tensors(); ++t)
      if (layout.tensor_range(t).contains({i, i + 1}))
        return shift + 40 * t + static_cast<double>(i - layout.tensor_range(t).begin);
    return 0.0;
  };
}

// Padding of `to` is left as it is.
void expect_transfer(const DBuffer& from, const DBuffer& to) {
  SCOPED_TRACE(to_string(from.placements()) + " " + name(from.layout()->policy()) + " into " +
               to_string(to.placements()) + " " + name(to.layout()->policy()));
  fill(from, by_tensor(*from.layout()));
  spoil(to);
  const std::vector<std::byte> before = bytes_of(from);
  from.redistribute_into(to);
  EXPECT_EQ(bytes_of(from), before);
  const std::vector<bool> payload = payload_of(*to.layout());
  const Values expected = by_tensor(*to.layout());
  const std::int64_t width = width_of(to.dtype());
  const std::vector<std::byte> found = bytes_of(to);
  for (std::int64_t i = 0; i < to.numel(); ++i) {
    const std::int64_t global = to.range().begin + i;
    if (payload[static_cast<std::size_t>(global)]) {
      ASSERT_EQ(ostraka::test::element(found.data(), i, to.dtype()), expected(global)) << "element " << global;
    } else {
      const auto* bytes = found.data() + i * width;
      ASSERT_TRUE(std::all_of(bytes, bytes + width, [](std::byte b) { return b == std::byte{0xff}; })) << global;
    }
  }
}

TEST(Transfer, EveryLayoutIntoEveryLayoutAndBack) {
  const auto mesh = mesh_of({ranks});
  const auto layouts = every_layout(mixed);
  for (const LayoutPtr& a : layouts)
    for (const LayoutPtr& b : layouts) {
      const DBuffer from(mesh, {S}, a, DType::f32), to(mesh, {S}, b, DType::f32);
      expect_transfer(from, to);
      expect_transfer(to, from);
    }
  for (const DType dtype : all_types) {
    const DBuffer from(mesh, {S}, layouts[3], dtype), to(mesh, {R}, layouts[5], dtype);
    expect_transfer(from, to);
    expect_transfer(to, from);
  }
}

TEST(Transfer, BetweenMeshesAndPlacements) {
  std::vector<MeshPtr> meshes;
  for (const std::vector<int>& sizes : all_meshes())
    meshes.push_back(mesh_of(sizes));
  const auto a = share(build_ragged(mixed, 2 * ranks)), b = share(build_flat(mixed, ranks, {4, 2}));
  const auto first_sharded = [](const mesh::DeviceMesh& mesh, int axis) {
    Placements placements(static_cast<std::size_t>(mesh.dims()), R);
    std::fill(placements.begin() + std::min(axis, mesh.dims()), placements.end(), S);
    return placements;
  };
  for (const MeshPtr& source : meshes)
    for (const MeshPtr& target : meshes)
      for (int i = 0; i < 3; ++i)
        for (int j = 0; j < 3; j += 2)
          expect_transfer(DBuffer(source, first_sharded(*source, i), a, DType::i32),
                          DBuffer(target, first_sharded(*target, j), b, DType::i32));
}

TEST(Transfer, NothingToMove) {
  const auto mesh = mesh_of({ranks});
  for (const std::vector<Shape>& shapes : std::vector<std::vector<Shape>>{{}, {{0}}, {{0, 3}, {2, 0}}})
    expect_transfer(DBuffer(mesh, {S}, share(build_ragged(shapes, ranks)), DType::f64),
                    DBuffer(mesh, {R}, share(build_flat(shapes, ranks)), DType::f64));
}

// Counts that one call cannot hold are moved in several (cases.md 39), gathers and reductions too.
TEST(Transfer, BeyondTheCountLimit) {
  const ScopedEnvironment limit("OSTRAKA_COUNT_LIMIT", "7");
  const auto mesh = mesh_of({ranks});
  const std::vector<Shape> shapes{{20}, {5, 11}};
  for (const DType dtype : {DType::f64, DType::bf16, DType::u8})
    for (const LayoutPtr& layout : every_layout(shapes)) {
      SCOPED_TRACE(std::string(name(layout->policy())) + " of " + name(dtype));
      expect_transfer(DBuffer(mesh, {S}, layout, dtype), DBuffer(mesh, {S}, share(build_flat(shapes, ranks)), dtype));
      const DBuffer sum(mesh, {P}, layout, dtype);
      fill(sum, [](std::int64_t i) { return static_cast<double>(i % 4 + rank); });
      const auto expected = [](std::int64_t i) { return static_cast<double>(i % 4) * ranks + triangle(ranks - 1); };
      expect_values(sum.allreduce(0), expected);
      const DBuffer own = sum.reduce_scatter(0);
      expect_values(own, expected);
      expect_values(own.allgather(0), expected);
    }
}

struct Refused : testing::Test {
  // Refused on every rank, after which everything is as before.
  void expect_refused(const DBuffer& from, const DBuffer& to, Status status,
                      std::initializer_list<std::string> parts = {}) {
    expect_error(
        status, [&] { from.redistribute_into(to); }, parts);
    expect_transfer(good, DBuffer(mesh, {R}, flat, DType::f64));
  }

  MeshPtr mesh = mesh_of({ranks});
  LayoutPtr layout = reference_of({{7, 3}, {9}}), flat = share(build_flat({{7, 3}, {9}}, ranks));
  DBuffer good{mesh, {S}, layout, DType::f64};
};

TEST_F(Refused, OtherTensorsTypesAndPlacements) {
  const auto with = [&](const std::vector<Shape>& shapes, const Placement& placement = S, DType dtype = DType::f64) {
    return DBuffer(mesh, {placement}, reference_of(shapes), dtype);
  };
  expect_refused(good, DBuffer(), Status::INVALID_ARGUMENT, {"redistribute_into", "no buffer"});
  expect_refused(good, with({{7, 3}}), Status::SHAPE_MISMATCH, {"2 tensors", "1"});
  expect_refused(good, with({{7, 3}, {10}}), Status::SHAPE_MISMATCH, {"tensor 1", "(9)", "(10)"});
  expect_refused(good, with({{3, 7}, {9}}), Status::SHAPE_MISMATCH, {"tensor 0", "(7, 3)", "(3, 7)"});
  expect_refused(good, with({{7, 3}, {9}}, S, DType::f32), Status::TYPE_MISMATCH, {"f64", "f32"});
  for (const Placement& partial : {P, A, Max}) {
    expect_refused(good, with({{7, 3}, {9}}, partial), Status::NOT_SUPPORTED, {to_string(Placements{partial})});
    expect_refused(with({{7, 3}, {9}}, partial), good, Status::NOT_SUPPORTED, {to_string(Placements{partial})});
  }
}

TEST_F(Refused, ReleasedMemory) {
  DBuffer released(mesh, {S}, flat, DType::f64, {nullptr, memory::Kind::other, false});
  expect_refused(good, released, Status::INVALID_STATE, {"redistribute_into", "released"});
  expect_refused(released, good, Status::INVALID_STATE, {"released"});
  released.reallocate_storage();
  expect_transfer(good, released);
}

// Also on ranks that hold nothing.
TEST_F(Refused, SharedMemory) {
  expect_refused(good, good, Status::INVALID_ARGUMENT, {"share memory"});
  const auto whole = share(build_tensor_atomic({{7, 3}, {9}}, ranks, std::vector<int>{0, 0}));
  const DBuffer first(mesh, {S}, whole, DType::f64);
  expect_refused(first, first.view({S}), Status::INVALID_ARGUMENT, {"share memory"});
  const CallerMemory memory(mesh->device(), 8 * (2 * layout->size() + 1));
  const auto at = [&](std::int64_t offset, const Placement& placement) {
    const Range range = range_of(*layout, {placement}, {ranks}, rank);
    return DBuffer::from_local(memory.data() + 8 * offset, range.size(), mesh, {placement}, layout, DType::f64);
  };
  const std::int64_t own = layout->size() / ranks;
  expect_refused(at(0, S), at(own - 1, R), Status::INVALID_ARGUMENT, {"share memory"});
  expect_refused(at(own - 1, S), at(0, S), Status::INVALID_ARGUMENT, {"share memory"});
  expect_transfer(at(0, S), at(own, R)); // side by side
}

TEST_F(Refused, OtherRanks) {
  if (ranks == 1)
    GTEST_SKIP() << "needs two ranks";
  MPI_Comm reversed = MPI_COMM_NULL, part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -rank, &reversed);
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0, rank, &part);
  int size = 0;
  MPI_Comm_size(part, &size);
  const auto backwards = mesh::DeviceMesh::create(reversed, {ranks}), smaller = mesh::DeviceMesh::create(part, {size});
  MPI_Comm_free(&reversed);
  MPI_Comm_free(&part);
  expect_refused(good, DBuffer(backwards, {S}, layout, DType::f64), Status::INVALID_ARGUMENT, {"same ranks"});
  const auto for_few = share(build_flat({{7, 3}, {9}}, size));
  expect_refused(good, DBuffer(smaller, {S}, for_few, DType::f64), Status::INVALID_ARGUMENT, {"same ranks"});
}

} // namespace
} // namespace ostraka::buffer::test
