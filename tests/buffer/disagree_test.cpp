// SPDX-License-Identifier: Apache-2.0
// One rank calls something else, or nothing: every rank that communicates ends with an error that names the operation,
// and the data of all is as before.
#include "buffer_test.hpp"
#include "support/scoped_environment.hpp"
#include <ostraka/base/environment.hpp>
#include <ostraka/buffer/flat_buffer.hpp>

namespace ostraka::buffer::test {
namespace {

const std::vector<Shape> shapes{{5, 4}, {2, 6}, {3}};

TEST(Names, AreInherited) {
  const auto mesh = mesh_of({ranks});
  DBuffer buffer(mesh, {P}, reference_of(shapes), DType::f64);
  EXPECT_EQ(buffer.name(), nullptr);
  const DBuffer before = buffer.view({R});
  buffer.set_name("weights");
  EXPECT_EQ(before.name(), nullptr);
  const DBuffer handles[] = {buffer, buffer.view({R}), buffer.redistribute({S}), buffer.cast(DType::f32),
                             buffer.redistribute({R}).cast(DType::bf16).redistribute({S})};
  for (const DBuffer& handle : handles) {
    ASSERT_NE(handle.name(), nullptr);
    EXPECT_EQ(*handle.name(), "weights");
  }
  buffer.set_name("biases");
  EXPECT_EQ(*handles[0].name(), "weights"); // handles are values
}

struct Disagree : testing::Test {
  void SetUp() override {
    if (ranks == 1)
      GTEST_SKIP() << "one rank agrees with itself";
  }

  // The last rank runs `different`, the others `usual`; a mesh whose communicators failed is of no more use.
  void expect_everywhere(Status status, std::initializer_list<std::string> parts, const std::function<void()>& usual,
                         const std::function<void()>& different) {
    SCOPED_TRACE(*parts.begin());
    expect_error(status, rank == ranks - 1 ? different : usual, parts);
    MPI_Barrier(MPI_COMM_WORLD);
    mesh = mesh_of({ranks});
  }

  DBuffer filled(const Placement& placement, const LayoutPtr& layout, DType dtype = DType::f64) const {
    DBuffer buffer(mesh, {placement}, layout, dtype);
    fill(buffer, small);
    buffer.set_name("weights");
    return buffer;
  }

  MeshPtr mesh = mesh_of({ranks});
  LayoutPtr layout = reference_of(shapes), other_layout = reference_of({{5, 4}, {2, 6}, {300}});
};

struct Compared : Disagree {
  void SetUp() override {
    Disagree::SetUp();
    if (!environment::check())
      GTEST_SKIP() << "operations are compared with OSTRAKA_CHECK=1";
  }
};

TEST_F(Compared, Sizes) {
  const DBuffer own = filled(S, layout), larger = filled(S, other_layout);
  expect_everywhere(
      Status::RANKS_DISAGREE,
      {"allgather of " + std::to_string(layout->size()) + " f64 of 'weights'", "rank 0 called",
       "allgather of " + std::to_string(other_layout->size()) + " f64"},
      [&] { own.allgather(0); }, [&] { larger.allgather(0); });
  expect_values(own, small);
}

TEST_F(Compared, Types) {
  const DBuffer floats = filled(P, layout, DType::f32), integers = filled(P, layout, DType::i32);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"allreduce", "f32", "i32", "rank " + std::to_string(ranks - 1)},
      [&] { floats.allreduce(0); }, [&] { integers.allreduce(0); });
  expect_values(floats, small);
  expect_values(integers, small);
}

TEST_F(Compared, Names) {
  DBuffer weights = filled(P, layout), biases = filled(P, layout);
  biases.set_name("biases");
  expect_everywhere(
      Status::RANKS_DISAGREE, {"'weights'", "'biases'"}, [&] { weights.reduce_scatter(0); },
      [&] { biases.reduce_scatter(0); });
  expect_values(weights, small);
}

TEST_F(Compared, Reductions) {
  const DBuffer sum = filled(P, layout), most = filled(Max, layout);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"reductions sum and max"}, [&] { sum.allreduce(0); }, [&] { most.allreduce(0); });
  expect_values(most, small);
}

TEST_F(Compared, Operations) {
  const DBuffer sum = filled(P, layout);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"rank 0 called allreduce", "called reduce-scatter", "weights"},
      [&] { sum.redistribute({R}); }, [&] { sum.redistribute({S}); });
  expect_values(sum, small);
}

TEST_F(Compared, Pieces) {
  std::vector<std::int64_t> ascending, descending;
  for (int k = 0; k < ranks; ++k) {
    ascending.push_back(k);
    descending.push_back(ranks - 1 - k);
  }
  const DBuffer own = filled(S, segments_of(ascending)), reversed = filled(S, segments_of(descending));
  expect_everywhere(
      Status::RANKS_DISAGREE, {"allgather", "pieces", "differ"}, [&] { own.allgather(0); },
      [&] { reversed.allgather(0); });
}

// Of one size, in equal pieces: only what stands where differs.
TEST_F(Compared, Layouts) {
  const DBuffer own = filled(S, share(build_flat({{4, ranks}, {3, ranks}}, ranks))),
                swapped = filled(S, share(build_flat({{3, ranks}, {4, ranks}}, ranks)));
  ASSERT_EQ(own.layout()->size(), swapped.layout()->size());
  expect_everywhere(
      Status::RANKS_DISAGREE, {"allgather", "layouts that differ"}, [&] { own.allgather(0); },
      [&] { swapped.allgather(0); });
  const DBuffer sum = filled(P, own.layout()), other = filled(P, swapped.layout());
  expect_everywhere(
      Status::RANKS_DISAGREE, {"allreduce", "layouts that differ"}, [&] { sum.allreduce(0); },
      [&] { other.allreduce(0); });
  const DBuffer again = filled(P, own.layout()), third = filled(P, swapped.layout());
  expect_everywhere(
      Status::RANKS_DISAGREE, {"reduce-scatter", "layouts that differ"}, [&] { again.reduce_scatter(0); },
      [&] { third.reduce_scatter(0); });
}

// The same reduction of the same elements, which mean something else.
TEST_F(Compared, PlacementsOfOtherAxes) {
  const auto square = mesh_of({1, ranks});
  const DBuffer first(square, {R, P}, layout, DType::f64), second(square, {P, P}, layout, DType::f64);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"allreduce", "layouts that differ"}, [&] { first.allreduce(1); },
      [&] { second.allreduce(1); });
}

TEST_F(Compared, TargetsOfTransfers) {
  const DBuffer own = filled(S, layout), flat(mesh, {S}, share(build_flat(shapes, ranks)), DType::f64),
                ragged(mesh, {S}, share(build_ragged(shapes, ranks, {row_atom()})), DType::f64);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"exchange", "'weights'"}, [&] { own.redistribute_into(flat); },
      [&] { own.redistribute_into(ragged); });
  expect_values(own, small);
  expect_values(flat, [](std::int64_t) { return 0; });
}

TEST_F(Compared, FlatBuffers) {
  FlatBuffer usual(mesh, {{20}}, DType::f32), longer(mesh, {{40}}, DType::f32);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"reduce-scatter", "f32"}, [&] { usual.reduce_scatter(); },
      [&] { longer.reduce_scatter(); });
  FlatBuffer rows(mesh, {{2, 15}}, DType::f32), columns(mesh, {{15, 2}}, DType::f32);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"allgather", "differ"}, [&] { rows.all_gather(); }, [&] { columns.all_gather(); });
  FlatBuffer whole(mesh, {{30}}, DType::f32), cut(mesh, {{2}, {28}}, DType::f32);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"reduce-scatter", "differ"}, [&] { whole.reduce_scatter(); },
      [&] { cut.reduce_scatter(); });
}

// The same after a failure: the communicators stay failed, the data does not.
TEST_F(Compared, DataOutlivesTheMesh) {
  const DBuffer sum = filled(P, layout), other = filled(P, other_layout);
  expect_everywhere(
      Status::RANKS_DISAGREE, {"weights"}, [&] { sum.allreduce(0); }, [&] { other.allreduce(0); });
  expect_error(Status::FAILED, [&] { sum.reduce_scatter(0); }, {"refused", "differs between its ranks"});
  expect_values(sum, small);
  expect_values(sum.cast(DType::f32), small); // without communication it goes on
  expect_values(sum.view({R}), small);
  const DBuffer again = DBuffer::from_storage(sum.storage(), mesh, {P}, layout, DType::f64);
  expect_values(again.allreduce(0), times(ranks));
  const DBuffer whole = filled(R, layout);
  EXPECT_NO_THROW(whole.redistribute({S})); // the new mesh is whole
}

/// Waits are short in these: they end by time-out.
struct Impatient : Disagree {
  void SetUp() override {
    Disagree::SetUp();
    if (ranks > 4)
      GTEST_SKIP() << "enough with fewer ranks";
  }
  const ScopedEnvironment limit{"OSTRAKA_TIMEOUT_S", "0.3"};
};

TEST_F(Impatient, OnAnotherCommunicator) {
  const DBuffer own = filled(S, layout), sum = filled(P, layout);
  const std::string mine = rank == ranks - 1 ? "allreduce" : "allgather";
  expect_everywhere(
      Status::TIME_OUT, {mine, "'weights'", "OSTRAKA_TIMEOUT_S", "same calls"}, [&] { own.allgather(0); },
      [&] { sum.allreduce(0); });
  expect_values(own, small);
  expect_values(sum, small);
}

// One rank refuses its arguments and goes on alone.
TEST_F(Impatient, Nothing) {
  DBuffer own = filled(S, layout), sum = filled(P, layout);
  const DBuffer flat(mesh, {R}, share(build_flat(shapes, ranks)), DType::f64); // everybody needs rank 0
  if (rank == 0) {
    own.release_storage();
    expect_error(Status::INVALID_STATE, [&] { own.redistribute_into(flat); }, {"released"});
    own.reallocate_storage();
    fill(own, small);
  } else {
    expect_error(Status::TIME_OUT, [&] { own.redistribute_into(flat); }, {"exchange", "'weights'", "pending"});
  }
  MPI_Barrier(MPI_COMM_WORLD);
  expect_values(own, small);
  // Other communicators of the mesh go on.
  expect_values(sum.allreduce(0), times(ranks));
  expect_values(own.allgather(0), small);
}

// Two axes: a line whose ranks agree is not touched by the other.
TEST_F(Impatient, OneLineOfTwo) {
  if (ranks != 4)
    GTEST_SKIP() << "needs four ranks";
  const auto square = mesh_of({2, 2});
  DBuffer sum(square, {P, R}, layout, DType::f64);
  fill(sum, small);
  sum.set_name("gradients");
  const bool waits_alone = square->coordinate(1) == 1 && square->coordinate(0) == 0;
  if (square->coordinate(1) == 0)
    expect_values(sum.allreduce(0), times(2));
  else if (waits_alone)
    expect_error(Status::TIME_OUT, [&] { sum.allreduce(0); }, {"allreduce", "'gradients'"});
  MPI_Barrier(MPI_COMM_WORLD);
  expect_values(sum, small);
}

} // namespace
} // namespace ostraka::buffer::test
