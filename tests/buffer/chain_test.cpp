// SPDX-License-Identifier: Apache-2.0
// Random chains of redistributions, casts and copies. Every rank computes what all ranks should hold in plain vectors;
// there is no communication in the model.
#include "buffer_test.hpp"
#include "support/rounds.hpp"

#include <algorithm>
#include <random>

namespace ostraka::buffer::test {
namespace {

using Random = std::mt19937;

int pick(Random& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}

/// What every rank should hold: full-length vectors, of which only each rank's range means something.
struct Model {
  std::vector<int> sizes;
  LayoutPtr layout;
  Placements placements;
  std::vector<std::vector<double>> held; ///< [rank][element]

  Range range(int r) const { return range_of(*layout, placements, sizes, r); }

  /// The ranks that differ from `r` on `axis` only.
  std::vector<int> line(int r, std::size_t axis) const {
    std::vector<int> members;
    for (int other = 0; other < ranks; ++other) {
      auto a = coordinates_of(r, sizes), b = coordinates_of(other, sizes);
      a[axis] = b[axis] = 0;
      if (a == b)
        members.push_back(other);
    }
    return members;
  }

  void change(std::size_t axis, Placement to) {
    const Placement from = placements[axis];
    Model next = *this;
    next.placements[axis] = to;
    for (int r = 0; r < ranks; ++r) {
      const Range wanted = next.range(r);
      const std::vector<int> members = line(r, axis);
      for (std::int64_t i = wanted.begin; i < wanted.end; ++i) {
        const auto e = static_cast<std::size_t>(i);
        double& value = next.held[static_cast<std::size_t>(r)][e];
        if (from.is_partial()) {
          value = 0;
          for (const int member : members)
            value += held[static_cast<std::size_t>(member)][e];
          if (from.op == ReduceOp::mean)
            value /= static_cast<double>(members.size());
        } else if (from.is_shard()) {
          for (const int member : members)
            if (range(member).contains(Range{i, i + 1}))
              value = held[static_cast<std::size_t>(member)][e];
        }
      }
    }
    *this = std::move(next);
  }

  void redistribute(const Placements& to) {
    for (std::size_t axis = 0; axis < sizes.size(); ++axis) // gathers run outer to inner; views in any order
      if (placements[axis] != to[axis] && placements[axis].is_shard())
        change(axis, to[axis]);
    for (std::size_t axis = sizes.size(); axis-- > 0;)
      if (placements[axis] != to[axis])
        change(axis, to[axis]);
  }

  Values own() const {
    return [this](std::int64_t i) { return held[static_cast<std::size_t>(rank)][static_cast<std::size_t>(i)]; };
  }
};

/// Whether spec 2.4 has a way; the rules are spelled out and tested one by one in plan_test.cpp.
bool is_legal(const Placements& from, const Placements& to, DType dtype) {
  bool sharded = false;
  for (const Placement& placement : to) {
    if (sharded && !placement.is_shard())
      return false;
    sharded = placement.is_shard();
  }
  std::string changes;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] == to[axis])
      continue;
    if (from[axis] == S && to[axis] == R)
      changes += 'g';
    else if (from[axis] == R && to[axis] == S)
      changes += 'v';
    else if (from[axis] == R && to[axis] == A && is_floating(dtype))
      changes += 'l';
    else if (from[axis].is_partial() && !to[axis].is_partial())
      changes += 'p';
    else
      return false;
  }
  return changes.find_first_not_of(changes.substr(0, 1)) == std::string::npos &&
         changes.find("pp") == std::string::npos;
}

Placements random_placements(Random& random, std::size_t axes, DType dtype) {
  Placements placements;
  const std::size_t first_shard = random() % (axes + 1);
  for (std::size_t axis = 0; axis < axes; ++axis) {
    const int kind = pick(random, 0, is_floating(dtype) ? 2 : 1);
    placements.push_back(axis >= first_shard ? S : kind == 0 ? R : kind == 1 ? P : A);
  }
  return placements;
}

LayoutPtr random_layout(Random& random) {
  std::vector<Shape> shapes;
  for (int tensor = pick(random, 1, 4); tensor > 0; --tensor) {
    Shape shape{pick(random, 0, 7)};
    for (int dims = pick(random, 0, 2); dims > 0; --dims)
      shape.push_back(pick(random, 1, 4));
    shapes.push_back(shape);
  }
  const int segments = ranks * pick(random, 1, 2);
  if (random() % 2 == 0)
    return reference_of(shapes, segments);
  return std::make_shared<GlobalLayout>(build_planned(shapes, segments, {pick(random, 1, 8), pick(random, 1, 8)}));
}

/// The first contents: equal on ranks that differ on Replicate or Shard axes only.
Model random_model(Random& random, std::vector<int> sizes, DType dtype) {
  const std::size_t axes = sizes.size();
  Model model{std::move(sizes), random_layout(random), random_placements(random, axes, dtype), {}};
  const unsigned salt = random() % 1000;
  for (int r = 0; r < ranks; ++r) {
    unsigned group = 0;
    const std::vector<int> coordinates = coordinates_of(r, model.sizes);
    for (std::size_t axis = 0; axis < model.sizes.size(); ++axis)
      if (model.placements[axis].is_partial())
        group = group * 5 + static_cast<unsigned>(coordinates[axis]) + 1;
    std::vector<double>& held = model.held.emplace_back();
    for (unsigned i = 0; i < static_cast<unsigned>(model.layout->size()); ++i)
      held.push_back(12 * ((i * 7 + i / 5 + group * 3 + salt) % 6));
  }
  return model;
}

/// One redistribution of `buffer` with out absent, separate or sharing storage.
DBuffer step(Random& random, const DBuffer& buffer, const Placements& to) {
  const auto fresh = [&] { return DBuffer(buffer.mesh(), to, buffer.layout(), buffer.dtype()); };
  const int form = pick(random, 0, 2);
  if (form == 0)
    return buffer.redistribute(to);
  if (form == 1) {
    const DBuffer out = fresh();
    fill(
        out, [](std::int64_t) { return 77; }, true);
    const DBuffer result = buffer.redistribute(to, &out);
    EXPECT_EQ(result.storage(), out.storage());
    return result;
  }
  // The larger of the two ranges holds both.
  const bool grows =
      std::any_of(to.begin(), to.end(), [](const Placement& p) { return p.is_replicate(); }) &&
      to != buffer.placements() && buffer.placements().back().is_shard() &&
      std::count(to.begin(), to.end(), S) < std::count(buffer.placements().begin(), buffer.placements().end(), S);
  if (!grows) {
    const DBuffer out = buffer.view(to);
    return buffer.redistribute(to, &out);
  }
  const DBuffer out = fresh();
  fill(
      out, [](std::int64_t) { return 77; }, true);
  const DBuffer in = out.view(buffer.placements());
  buffer.redistribute(buffer.placements(), &in);
  return in.redistribute(to, &out);
}

std::vector<std::vector<int>> all_meshes() {
  std::vector<std::vector<int>> sizes{{ranks}, {1, ranks}, {ranks, 1}};
  if (ranks == 4)
    sizes.insert(sizes.end(), {{2, 2}, {2, 1, 2}, {2, 2, 1}});
  return sizes;
}

void run_chain(std::uint64_t seed, const std::vector<int>& sizes, const MeshPtr& mesh, int& moves) {
  Random random(static_cast<unsigned>(seed));
  constexpr DType types[] = {DType::f64, DType::f32, DType::bf16, DType::i64, DType::i32, DType::u8};
  DType dtype = types[random() % 6];
  Model model = random_model(random, sizes, dtype);
  DBuffer buffer(mesh, model.placements, model.layout, dtype);
  fill(buffer, model.own());
  for (int k = 0; k < 8; ++k) {
    if (is_floating(dtype) && random() % 5 == 0) {
      dtype = types[random() % 3];
      buffer = buffer.cast(dtype);
    }
    Placements to = model.placements;
    for (int attempt = 0; attempt < 20 && to == model.placements; ++attempt) {
      const Placements candidate = random_placements(random, sizes.size(), dtype);
      if (is_legal(model.placements, candidate, dtype)) {
        to = candidate;
      } else if (random() % 4 == 0) {
        EXPECT_THROW(buffer.redistribute(candidate), Error)
            << to_string(model.placements) << " to " << to_string(candidate);
      }
    }
    SCOPED_TRACE("step " + std::to_string(k) + ": " + to_string(model.placements) + " to " + to_string(to) + " of " +
                 name(dtype));
    moves += to != model.placements;
    buffer = step(random, buffer, to);
    model.redistribute(to);
    // A rank that finds an error goes on, since the others wait for it in the next step.
    EXPECT_EQ(buffer.placements(), to);
    EXPECT_EQ(buffer.range(), model.range(rank));
    expect_values(buffer, model.own());
  }
}

TEST(Chains, AgreeWithPlainVectors) {
  int moves = 0;
  for (const std::uint64_t seed : {std::uint64_t{1}, fresh_seed("Chains.AgreeWithPlainVectors")})
    for (const std::vector<int>& sizes : all_meshes()) {
      const auto mesh = mesh_of(sizes);
      for (int chain = 0; chain < ostraka::test::rounds(60); ++chain) {
        SCOPED_TRACE("seed " + std::to_string(seed) + ", chain " + std::to_string(chain) + ", axes " +
                     std::to_string(sizes.size()));
        run_chain(seed + 1000 * static_cast<std::uint64_t>(chain), sizes, mesh, moves);
      }
      int failed = HasFailure();
      MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
      ASSERT_EQ(failed, 0) << "on some rank";
    }
  EXPECT_GT(moves, 100);
}

} // namespace
} // namespace ostraka::buffer::test
