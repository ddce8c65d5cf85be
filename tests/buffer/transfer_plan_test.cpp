// SPDX-License-Identifier: Apache-2.0
// Transfers between layouts, delivered element by element in a model of all ranks.
#include "layout/layout_test.hpp"
#include "plan_model.hpp"
#include "support/rounds.hpp"
#include <ostraka/buffer/transfer_plan.hpp>

#include <map>

namespace ostraka::buffer::test {
namespace {

using comm::Transfer;
using layout::test::fresh_seed;
using layout::test::Random;
using ostraka::test::rounds;

const Placement R = replicate(), S = shard();

/// One side that owns what Side refers to.
struct Owned {
  GlobalLayout layout;
  Placements placements;
  Mesh mesh;

  Side side() const { return {layout, placements, mesh.sizes}; }
  Range range(int rank) const { return layout.local_range(placements, {mesh.sizes, mesh.coordinates(rank)}); }
  /// How many ranks hold the same.
  int replicas() const {
    int count = 1;
    for (std::size_t axis = 0; axis < placements.size(); ++axis)
      count *= placements[axis].is_replicate() ? mesh.sizes[axis] : 1;
    return count;
  }
};

/// An element of a tensor, wherever it stands; padding has no tensor.
struct Element {
  int tensor = -1;
  std::int64_t index = 0;

  bool operator==(const Element&) const = default;
};

/// What `rank` holds in place, element by element.
std::vector<Element> contents(const Owned& side, int rank) {
  const Range own = side.range(rank);
  std::vector<Element> result(static_cast<std::size_t>(own.size()));
  for (int tensor = 0; tensor < side.layout.num_tensors(); ++tensor) {
    const Range place = side.layout.tensor_range(tensor);
    for (std::int64_t at = place.begin; at < place.end; ++at)
      if (own.begin <= at && at < own.end)
        result[static_cast<std::size_t>(at - own.begin)] = {tensor, at - place.begin};
  }
  return result;
}

/// The plans of all ranks of one redistribution.
struct Case {
  Owned from, to;
  std::vector<TransferPlan> plans = {};
  std::vector<std::vector<Element>> before = {}, after = {};

  void plan() {
    ASSERT_EQ(from.mesh.ranks(), to.mesh.ranks());
    for (int rank = 0; rank < from.mesh.ranks(); ++rank) {
      plans.push_back(plan_transfers(from.side(), to.side(), rank));
      before.push_back(contents(from, rank));
      after.push_back(contents(to, rank));
    }
  }
  int ranks() const { return static_cast<int>(plans.size()); }
};

using Elements = std::vector<Element>;

/// The elements of `transfers` with `peer`, in order, and how many runs they are.
struct Stream {
  Elements elements;
  std::vector<std::int64_t> offsets;
  int runs = 0;
};

Stream stream(const std::vector<Transfer>& transfers, int peer, const Elements& local) {
  Stream result;
  for (const Transfer& transfer : transfers) {
    if (transfer.peer != peer)
      continue;
    ++result.runs;
    EXPECT_GT(transfer.count, 0);
    for (std::int64_t i = transfer.offset; i < transfer.offset + transfer.count; ++i) {
      EXPECT_TRUE(i >= 0 && i < static_cast<std::int64_t>(local.size()));
      result.elements.push_back(local.at(static_cast<std::size_t>(i)));
      result.offsets.push_back(i);
    }
  }
  return result;
}

/// What `source` sends to `target` arrives where it belongs; marks it in `arrived`.
void deliver(const Case& all, int source, int target, std::vector<int>& arrived) {
  const Elements& own = all.before[static_cast<std::size_t>(target)];
  const Stream sent =
      stream(all.plans[static_cast<std::size_t>(source)].sends, target, all.before[static_cast<std::size_t>(source)]);
  const Stream received =
      stream(all.plans[static_cast<std::size_t>(target)].receives, source, all.after[static_cast<std::size_t>(target)]);
  ASSERT_EQ(sent.elements.size(), received.elements.size()) << source << " to " << target;
  ASSERT_EQ(sent.runs, received.runs);
  std::map<int, int> tensors;
  for (std::size_t i = 0; i < sent.elements.size(); ++i) {
    ASSERT_EQ(sent.elements[i], received.elements[i]) << source << " to " << target;
    ASSERT_GE(sent.elements[i].tensor, 0) << "padding was sent";
    if (source != target) {
      ASSERT_EQ(std::find(own.begin(), own.end(), sent.elements[i]), own.end()) << "the receiver held it";
    }
    ++arrived[static_cast<std::size_t>(received.offsets[i])];
    ++tensors[sent.elements[i].tensor];
  }
  ASSERT_EQ(sent.runs, static_cast<int>(tensors.size())) << "a run was sent in pieces";
}

/// No rank serves more of the ranks that need a run than an even share of all that do, rounded up.
void check_spread(const Case& all) {
  const int receivers = all.to.replicas(), holders = all.from.replicas();
  const int fair = (receivers + holders - 1) / holders;
  for (int rank = 0; rank < all.ranks(); ++rank) {
    std::map<std::pair<int, std::int64_t>, int> served; // by the tensor and the first element of the run
    const Elements& local = all.before[static_cast<std::size_t>(rank)];
    for (const Transfer& send : all.plans[static_cast<std::size_t>(rank)].sends) {
      const Element first = local[static_cast<std::size_t>(send.offset)];
      if (send.peer != rank)
        ++served[{first.tensor, first.index}];
    }
    for (const auto& [run, count] : served)
      ASSERT_LE(count, fair) << "rank " << rank << ", tensor " << run.first << " from element " << run.second;
  }
}

void check_case(Case all) {
  all.plan();
  for (int target = 0; target < all.ranks(); ++target) {
    const auto t = static_cast<std::size_t>(target);
    std::vector<int> arrived(all.after[t].size(), 0);
    for (int source = 0; source < all.ranks(); ++source)
      deliver(all, source, target, arrived);
    for (std::size_t i = 0; i < arrived.size(); ++i)
      ASSERT_EQ(arrived[i], all.after[t][i].tensor >= 0 ? 1 : 0) << "rank " << target << ", element " << i;
    for (const auto* transfers : {&all.plans[t].sends, &all.plans[t].receives})
      ASSERT_TRUE(std::is_sorted(transfers->begin(), transfers->end(),
                                 [](const Transfer& a, const Transfer& b) { return a.peer < b.peer; }));
  }
  check_spread(all);
}

std::string describe(const Owned& side) {
  std::string text = std::string(name(side.layout.policy())) + " " + to_string(side.placements) + " on";
  for (const int size : side.mesh.sizes)
    text += " " + std::to_string(size);
  return text + ", " + std::to_string(side.layout.segments()) + " segments of " + std::to_string(side.layout.size());
}

std::vector<Shape> draw_shapes(Random& random) {
  std::vector<Shape> shapes = random.shapes(static_cast<std::size_t>(random.draw(0, 6)), random.draw(1, 60));
  if (random.draw(0, 3) == 0)
    shapes.push_back({random.draw(1, 3), random.draw(40, 90)}); // rows larger than most segments
  if (random.draw(0, 3) == 0)
    shapes.push_back({});
  return shapes;
}

/// The reference refuses rows of no elements, and its padding would be most of some cases.
bool suits_reference(const std::vector<Shape>& shapes, int segments) {
  std::int64_t chunk = segments;
  for (const Shape& shape : shapes)
    chunk = row_numel(shape) > 0 && chunk < 10'000 ? std::lcm(chunk, row_numel(shape)) : 10'000;
  return chunk < 10'000;
}

GlobalLayout draw_layout(const std::vector<Shape>& shapes, int segments, Random& random) {
  const Alignment alignment{random.draw(1, 5), random.draw(1, 4)};
  std::vector<int> owners(shapes.size());
  for (int& owner : owners)
    owner = static_cast<int>(random.draw(0, segments - 1));
  switch (random.draw(suits_reference(shapes, segments) ? 0 : 1, 4)) {
  case 0:
    return build_reference(shapes, segments);
  case 1:
    return build_planned(shapes, segments, alignment, random.atoms(shapes.size()));
  case 2:
    return build_ragged(shapes, segments, random.atoms(shapes.size()));
  case 3:
    return build_flat(shapes, segments, alignment);
  default:
    return build_tensor_atomic(shapes, segments, owners);
  }
}

Mesh draw_mesh(int ranks, Random& random) {
  Mesh mesh{{ranks}};
  for (std::int64_t axes = random.draw(1, 3); static_cast<std::int64_t>(mesh.sizes.size()) < axes;) {
    std::vector<int> divisors;
    for (int divisor = 1; divisor <= mesh.sizes.back(); ++divisor)
      if (mesh.sizes.back() % divisor == 0)
        divisors.push_back(divisor);
    const int inner =
        divisors[static_cast<std::size_t>(random.draw(0, static_cast<std::int64_t>(divisors.size()) - 1))];
    mesh.sizes.back() /= inner;
    mesh.sizes.push_back(inner);
  }
  return mesh;
}

Owned draw_side(const std::vector<Shape>& shapes, int ranks, Random& random) {
  const Mesh mesh = draw_mesh(ranks, random);
  const auto axes = static_cast<std::int64_t>(mesh.sizes.size());
  Placements placements(static_cast<std::size_t>(random.draw(0, axes)), R);
  placements.resize(static_cast<std::size_t>(axes), S);
  int shards = 1;
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    shards *= placements[axis] == S ? mesh.sizes[axis] : 1;
  // As many segments as ranks, as shards, or more.
  const int segments = random.draw(0, 1) == 0 ? ranks : shards * static_cast<int>(random.draw(1, 3));
  return {draw_layout(shapes, segments, random), placements, mesh};
}

void check_random(std::uint64_t seed, int count) {
  Random random(seed);
  for (int round = 0; round < count && !testing::Test::HasFailure(); ++round) {
    const std::vector<Shape> shapes = draw_shapes(random);
    const int ranks = static_cast<int>(random.draw(1, 12));
    const Owned from = draw_side(shapes, ranks, random), to = draw_side(shapes, ranks, random);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round << ": " << describe(from) << " to "
                                    << describe(to) << ", " << layout::test::describe(shapes, 1, {}));
    check_case({from, to});
  }
}

TEST(TransferPlan, RandomFixedSeed) { check_random(17, rounds(5000)); }
TEST(TransferPlan, RandomFreshSeed) { check_random(fresh_seed(), rounds(5000)); }

using Transfers = std::vector<Transfer>;

Segments segments_of(const std::vector<std::int64_t>& lengths) {
  Segments segments;
  for (const std::int64_t length : lengths)
    segments.append(1, length);
  return segments;
}

// arange(9) over axes of 4 and 2, with a hole in the middle of the buffer, to one axis of 8 and to all on every rank.
TEST(TransferPlan, Case5) {
  const Owned from{GlobalLayout(Policy::planned, {{4}, {5}}, {0, 9}, 8, 2), {S, S}, {{4, 2}}};
  const Owned rows{build_ragged({{4}, {5}}, 8), {S}, {{8}}};
  check_case({from, rows});
  check_case({from, {rows.layout, {R}, {{8}}}});
  // Rank 2 is (1, 0), which holds segment 1; rank 1 is (0, 1), which holds segment 4: [8, 10), of which 8 is padding.
  EXPECT_EQ(plan_transfers(from.side(), rows.side(), 2).sends, (Transfers{{1, 0, 2}}));
  EXPECT_EQ(plan_transfers(from.side(), rows.side(), 1).sends, (Transfers{{2, 1, 1}}));
}

// Widths 2, 3, 4, 5 to equal parts, and back.
TEST(TransferPlan, Case6) {
  const Owned ragged{GlobalLayout(Policy::ragged, {{14}}, {0}, segments_of({2, 3, 4, 5})), {S}, {{4}}};
  const Owned equal{GlobalLayout(Policy::flat, {{14}}, {0}, 4, 4), {S}, {{4}}};
  const Transfers sends[] = {{{0, 0, 2}}, {{0, 0, 2}, {1, 2, 1}}, {{1, 0, 3}, {2, 3, 1}}, {{2, 0, 3}, {3, 3, 2}}};
  const Transfers receives[] = {{{0, 0, 2}, {1, 2, 2}}, {{1, 0, 1}, {2, 1, 3}}, {{2, 0, 1}, {3, 1, 3}}, {{3, 0, 2}}};
  for (int rank = 0; rank < 4; ++rank) {
    const TransferPlan there = plan_transfers(ragged.side(), equal.side(), rank);
    EXPECT_EQ(there.sends, sends[rank]) << rank;
    EXPECT_EQ(there.receives, receives[rank]) << rank;
    const TransferPlan back = plan_transfers(equal.side(), ragged.side(), rank);
    EXPECT_EQ(back.sends, receives[rank]) << rank; // the same pieces the other way
    EXPECT_EQ(back.receives, sends[rank]) << rank;
  }
}

// On a mesh (2, 3) rank (i, j) holds segment 2j + i; on one axis rank r holds segment r.
TEST(TransferPlan, Case44) {
  const GlobalLayout layout(Policy::flat, {{6}}, {0}, 6, 1);
  const Owned two{layout, {S, S}, {{2, 3}}}, one{layout, {S}, {{6}}};
  const int segment[] = {0, 2, 4, 1, 3, 5};
  for (int rank = 0; rank < 6; ++rank) {
    EXPECT_EQ(plan_transfers(two.side(), one.side(), rank).sends, (Transfers{{segment[rank], 0, 1}}));
    EXPECT_EQ(plan_transfers(one.side(), two.side(), rank).receives, (Transfers{{segment[rank], 0, 1}}));
  }
}

} // namespace
} // namespace ostraka::buffer::test
