// SPDX-License-Identifier: Apache-2.0
// Chunks by name against the tables of spec section 4, without communication.
#include "checkpoint_test.hpp"
#include "support/mpi_calls.hpp"
#include <ostraka/checkpoint/chunks.hpp>

namespace ostraka::checkpoint::test {
namespace {

using layout::RowChunk;

NamedState state_of(const MeshPtr& mesh, layout::Placements placements, std::vector<Shape> shapes) {
  NamedState state;
  state.tensor_names = make_names(shapes.size());
  state.main_weight = DBuffer::empty(mesh, std::move(placements), std::move(shapes), DType::f32);
  return state;
}

// Rows [tensor] of every rank of the table, on as many ranks.
void expect_table(const std::vector<Shape>& shapes, const std::vector<std::vector<RowChunk>>& table) {
  if (static_cast<int>(table.size()) > ranks)
    return;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(static_cast<int>(table.size()));
  if (!mesh)
    return;
  const std::vector<NamedState> states{state_of(mesh, {layout::shard()}, shapes)};
  mpi_calls = {};
  const auto found = chunks(states);
  EXPECT_TRUE(mpi_calls.number.empty()) << mpi_calls.number.begin()->first;
  ASSERT_EQ(found.size(), shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Chunk& chunk = found.at("net.t" + std::to_string(i));
    const RowChunk expected = table[static_cast<std::size_t>(rank)][i];
    if (expected.first_row < 0)
      continue;
    EXPECT_EQ(chunk.rows(), expected) << "tensor " << i;
    EXPECT_EQ(chunk.shape, shapes[i]);
    EXPECT_EQ(chunk.written, chunk.elements);
    const layout::Box box = chunk.row_box();
    EXPECT_EQ(box.offsets[0], expected.first_row);
    EXPECT_EQ(box.sizes[0], expected.num_rows);
    EXPECT_EQ(Shape(box.sizes.begin() + 1, box.sizes.end()), Shape(shapes[i].begin() + 1, shapes[i].end()));
    EXPECT_EQ(chunk.boxes().size(), expected.num_rows > 0 ? 1u : 0u);
  }
}

constexpr RowChunk unknown{-1, 0};

TEST(Chunks, TablesOfTheSpec) {
  expect_table({{16, 8}, {16}}, {{{0, 9}, {0, 0}}, {{9, 7}, {0, 16}}});
  expect_table(
      {{5, 3}, {4, 3}, {7}},
      {{{0, 3}, {0, 0}, {0, 0}}, {{3, 2}, {0, 1}, {0, 0}}, {{5, 0}, {1, 3}, {0, 0}}, {{5, 0}, {4, 0}, {0, 7}}});
  expect_table({{4, 4}, {2, 2}, {2, 6}}, {{{0, 4}, {0, 2}, {0, 0}}, {{4, 0}, {2, 0}, {0, 2}}});
  expect_table({{5, 4}, {2, 6}, {3}}, {{unknown, unknown, unknown}, {{5, 0}, {0, 2}, {3, 0}}});
  expect_table({{6, 3}, {4, 2}, {2, 2}},
               {{unknown, unknown, unknown}, {{4, 2}, {0, 3}, {0, 0}}, {unknown, unknown, unknown}});
}

TEST(Chunks, Case28) { // ranks that hold only padding
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks);
  const auto layout = std::make_shared<layout::GlobalLayout>(layout::build_flat({{10}}, ranks, {1, 8}));
  NamedState state;
  state.tensor_names = {"net.t0"};
  state.main_weight = DBuffer(mesh, {layout::shard()}, layout, DType::f64);
  const Chunk found = chunk_of(std::vector<NamedState>{state}, "net.t0");
  EXPECT_LE(found.elements.end, 10);
  if (rank >= 2) {
    EXPECT_EQ(found.elements, (layout::Range{10, 10}));
    EXPECT_TRUE(found.boxes().empty());
  }
}

// Every element has one writer, and what ranks write differs by at most one element of a buffer.
TEST(Chunks, ReplicasWriteEvenParts) {
  Meshes meshes;
  const MeshPtr mesh = meshes.first(ranks, ranks % 2 == 0 ? 2 : 1);
  std::vector<layout::Placements> all{{layout::replicate()}};
  if (mesh->dims() == 2)
    all = {{layout::replicate(), layout::replicate()}, {layout::replicate(), layout::shard()}};
  for (const auto& placements : all) {
    const auto found = chunks(std::vector<NamedState>{state_of(mesh, placements, {{7, 3}, {2, 5}, {7}})});
    std::vector<int> writers(21 + 10 + 7, 0);
    const int firsts[] = {0, 21, 31};
    for (int i = 0; i < 3; ++i) {
      const Chunk& chunk = found.at("net.t" + std::to_string(i));
      EXPECT_TRUE(chunk.elements.contains(chunk.written) || chunk.written.size() == 0);
      for (std::int64_t k = chunk.written.begin; k < chunk.written.end; ++k)
        ++writers[static_cast<std::size_t>(firsts[i] + k)];
    }
    MPI_Allreduce(MPI_IN_PLACE, writers.data(), static_cast<int>(writers.size()), MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    EXPECT_EQ(writers, std::vector<int>(38, 1)) << layout::to_string(placements);
  }
  const auto layout = std::make_shared<layout::GlobalLayout>(layout::build_ragged({{1000}}, ranks));
  NamedState state;
  state.tensor_names = {"net.t0"};
  state.main_weight = DBuffer(mesh, layout::Placements(mesh->dims(), layout::replicate()), layout, DType::f64);
  const std::int64_t written = chunk_of(std::vector<NamedState>{state}, "net.t0").written.size();
  EXPECT_GE(written, 1000 / ranks);
  EXPECT_LE(written, 1000 / ranks + 1);
}

TEST(Chunks, TiedNamesShareAChunk) {
  Meshes meshes;
  NamedState state = state_of(meshes.first(ranks), {layout::shard()}, {{5, 2}, {3}});
  state.other_names["decoder.embedding"] = 0;
  const std::vector<NamedState> states{state};
  const auto found = chunks(states);
  ASSERT_EQ(found.size(), 3u);
  EXPECT_EQ(found.at("decoder.embedding"), found.at("net.t0"));
  EXPECT_EQ(chunk_of(states, "decoder.embedding"), found.at("net.t0"));
  EXPECT_EQ(chunk_of(states, "net.t1"), found.at("net.t1"));
  expect_error(Status::INVALID_ARGUMENT, [&] { chunk_of(states, "other"); }, {"'other'"});
}

TEST(Chunks, Boxes) { // a flat cut inside rows
  if (ranks != 2)
    return;
  Meshes meshes;
  const MeshPtr mesh = meshes.first(2);
  NamedState state;
  state.tensor_names = {"net.t0"};
  state.main_weight = DBuffer(mesh, {layout::shard()},
                              std::make_shared<layout::GlobalLayout>(layout::build_flat({{3, 5}}, 2)), DType::f64);
  const Chunk found = chunk_of(std::vector<NamedState>{state}, "net.t0"); // 8 and 7 elements
  std::vector<layout::Box> expected;
  if (rank == 0)
    expected = {{{0, 0}, {1, 5}}, {{1, 0}, {1, 3}}};
  else
    expected = {{{1, 3}, {1, 2}}, {{2, 0}, {1, 5}}};
  EXPECT_EQ(found.boxes(), expected);
  expect_error(Status::INVALID_ARGUMENT, [&] { found.rows(); }, {"boxes"});
}

TEST(Chunks, RowBoxes) {
  EXPECT_EQ(make_row_box(Shape{4, 3}, {1, 2}), (layout::Box{{1, 0}, {2, 3}}));
  EXPECT_EQ(make_row_box(Shape{4, 3}, {4, 0}), (layout::Box{{4, 0}, {0, 3}}));
  EXPECT_EQ(make_row_box(Shape{}, {0, 1}), (layout::Box{{}, {}}));
  expect_error(Status::INVALID_ARGUMENT, [] { make_row_box(Shape{4, 3}, {3, 2}); }, {"4", "3"});
}

TEST(Chunks, PartialIsRefused) {
  Meshes meshes;
  const std::vector<NamedState> states{state_of(meshes.first(ranks), {layout::partial()}, {{5, 2}})};
  expect_error(Status::INVALID_ARGUMENT, [&] { chunks(states); }, {"Partial"});
}

} // namespace
} // namespace ostraka::checkpoint::test
