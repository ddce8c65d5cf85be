// SPDX-License-Identifier: Apache-2.0
// Who owns what: segments, owners and local ranges of unequal segments against plain lists, and the check of atoms.
#include "layout_test.hpp"

namespace ostraka::layout::test {
namespace {

struct Drawn {
  std::vector<std::int64_t> lengths; ///< of all segments
  GlobalLayout layout;
};

// Tensors in a shuffled order with gaps between them, cuts anywhere.
Drawn draw_layout(Random& random, int segments) {
  std::vector<Shape> shapes = random.shapes(static_cast<std::size_t>(random.draw(0, 7)), 12);
  std::vector<std::size_t> order(shapes.size());
  for (std::size_t i = 0; i < order.size(); ++i)
    order[i] = i;
  random.shuffle(order);
  std::vector<std::int64_t> offsets(shapes.size());
  std::int64_t end = 0;
  for (const std::size_t i : order) {
    end += random.draw(0, 2) == 0 ? random.draw(0, 4) : 0;
    offsets[i] = end;
    end += naive_numel(shapes[i]);
  }
  end += random.draw(0, 3);
  std::vector<std::int64_t> cuts{0, end};
  for (int k = 1; k < segments; ++k)
    cuts.push_back(random.draw(0, end));
  std::sort(cuts.begin(), cuts.end());
  std::vector<std::int64_t> lengths;
  Segments runs;
  for (std::size_t k = 1; k < cuts.size(); ++k) {
    lengths.push_back(cuts[k] - cuts[k - 1]);
    runs.append(1, lengths.back());
  }
  return {lengths, GlobalLayout(Policy::ragged, std::move(shapes), std::move(offsets), runs)};
}

TEST(Ownership, SegmentsAndOwnersByDefinition) {
  Random random(21);
  for (int round = 0; round < 1500 && !testing::Test::HasFailure(); ++round) {
    const int segments = static_cast<int>(random.draw(1, 9));
    const auto [lengths, layout] = draw_layout(random, segments);
    std::int64_t begin = 0;
    std::vector<int> first(layout.shapes().size(), 0), last(layout.shapes().size(), -1);
    for (int k = 0; k < segments; ++k) {
      const Range segment{begin, begin + lengths[static_cast<std::size_t>(k)]};
      ASSERT_EQ(layout.segment_range(k), segment);
      begin = segment.end;
      for (std::size_t i = 0; i < first.size(); ++i)
        for (std::int64_t e = 0; e < naive_numel(layout.shapes()[i]); ++e)
          if (const std::int64_t at = layout.tensor_range(static_cast<int>(i)).begin + e;
              segment.begin <= at && at < segment.end) {
            if (last[i] < 0)
              first[i] = k;
            last[i] = k;
          }
    }
    for (std::size_t i = 0; i < first.size(); ++i) {
      ASSERT_EQ(layout.owners(static_cast<int>(i)).first, first[i]);
      ASSERT_EQ(layout.owners(static_cast<int>(i)).last, last[i]);
    }
    ASSERT_EQ(layout.segment_size(), *std::max_element(lengths.begin(), lengths.end()));
  }
}

TEST(Ownership, IndicesAreChecked) {
  const GlobalLayout layout = build_ragged({{5, 4}, {0, 3}}, 2, {row_atom()});
  for (const int index : {-1, 2}) {
    expect_invalid([&] { layout.segment_range(index); }, {"segment_range", "[0, 2)", "found " + std::to_string(index)});
    expect_invalid([&] { layout.owners(index); }, {"[0, 2)", "found " + std::to_string(index)});
  }
  EXPECT_EQ(layout.owners(1).first, 0);
  EXPECT_EQ(layout.owners(1).last, -1);
}

// The digit formula of spec 1.2 on every mesh, placement list, position and number of segments per shard.
void check_mesh(Random& random, const std::vector<int>& sizes, const Placements& placements, int per_shard) {
  int shards = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis)
    shards *= placements[axis].is_shard() ? sizes[axis] : 1;
  const auto [lengths, layout] = draw_layout(random, shards * per_shard);
  std::vector<std::int64_t> begins{0};
  for (const std::int64_t length : lengths)
    begins.push_back(begins.back() + length);
  std::vector<int> position(sizes.size(), 0);
  std::vector<int> held(lengths.size(), 0);
  while (true) {
    int index = 0;
    for (int axis = static_cast<int>(sizes.size()) - 1; axis >= 0; --axis)
      if (const auto a = static_cast<std::size_t>(axis); placements[a].is_shard())
        index = index * sizes[a] + position[a];
    const auto first = static_cast<std::size_t>(index * per_shard);
    const Range expected{begins[first], begins[first + static_cast<std::size_t>(per_shard)]};
    ASSERT_EQ(layout.local_range(placements, {sizes, position}), expected);
    for (std::size_t k = first; k < first + static_cast<std::size_t>(per_shard); ++k)
      ++held[k];
    std::size_t axis = 0;
    while (axis < sizes.size() && ++position[axis] == sizes[axis])
      position[axis++] = 0;
    if (axis == sizes.size())
      break;
  }
  for (const int times : held) // every segment on equally many ranks
    ASSERT_EQ(times, held.front());
}

TEST(Ownership, LocalRangesOfUnequalSegments) {
  Random random(23);
  const auto R = replicate(), S = shard(), P = partial();
  for (int round = 0; round < 40 && !testing::Test::HasFailure(); ++round)
    for (const int per_shard : {1, 2, 3}) {
      for (const Placements& placements : {Placements{S, S}, {R, S}, {P, S}, {R, R}, {P, R}})
        for (const std::vector<int>& sizes : {std::vector<int>{2, 3}, {3, 2}, {1, 4}})
          check_mesh(random, sizes, placements, per_shard);
      for (const Placements& placements : {Placements{S, S, S}, {R, S, S}, {P, R, S}, {R, P, S}, {R, R, R}})
        for (const std::vector<int>& sizes : {std::vector<int>{2, 2, 2}, {2, 3, 4}})
          check_mesh(random, sizes, placements, per_shard);
    }
}

TEST(ValidateAtoms, AcceptsExactlyTheLegalLayouts) {
  Random random(31);
  int refused = 0, accepted = 0;
  for (int round = 0; round < 3000 && !testing::Test::HasFailure(); ++round) {
    const int segments = static_cast<int>(random.draw(1, 6));
    const bool equal = random.draw(0, 1) == 0;
    GlobalLayout layout = draw_layout(random, segments).layout;
    if (equal)
      layout = GlobalLayout(Policy::planned, layout.shapes(), offsets_of(layout), static_cast<int>(random.draw(1, 30)),
                            random.draw(layout.size(), layout.size() + 3));
    const std::int64_t size = layout.size();
    if (equal && size > 0) { // short segments, so that tensors cover several
      const std::int64_t length = random.draw(1, 9);
      layout = GlobalLayout(Policy::planned, layout.shapes(), offsets_of(layout),
                            static_cast<int>((size + length - 1) / length), length);
    }
    const Atoms atoms = random.atoms(layout.shapes().size());
    SCOPED_TRACE(describe(layout.shapes(), layout.segments(), atoms));
    // Of the first tensor whose atom is split, the first cut that does.
    std::string tensor, at, where;
    for (int i = 0; i < layout.num_tensors() && tensor.empty(); ++i) {
      const std::int64_t atom = naive_atom(atoms, static_cast<std::size_t>(i), layout.shape(i));
      const Range range = layout.tensor_range(i);
      for (int k = 1; k < layout.segments() && tensor.empty(); ++k) {
        const Range segment = layout.segment_range(k);
        if (segment.size() > 0 && range.begin < segment.begin && segment.begin < range.end &&
            (segment.begin - range.begin) % atom != 0) {
          tensor = "tensor " + std::to_string(i) + " of shape " + to_string(layout.shape(i));
          at = "at offset " + std::to_string(range.begin) + ": expected cuts at multiples of its atom of " +
               std::to_string(atom) + " elements";
          where = "segment " + std::to_string(k) + " to begin at element " +
                  std::to_string(segment.begin - range.begin) + " of it";
        }
      }
    }
    if (tensor.empty()) {
      ASSERT_NO_THROW(validate_atoms(layout, atoms));
      ++accepted;
    } else {
      expect_invalid([&] { validate_atoms(layout, atoms); }, {"validate_atoms", tensor, at, where});
      ++refused;
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(accepted, 500);
}

TEST(ValidateAtoms, PlantedViolations) {
  const GlobalLayout equal(Policy::planned, {{5, 4}, {3, 2}}, {0, 21}, 3, 9);
  expect_invalid([&] { validate_atoms(equal, {row_atom()}); },
                 {"tensor 0 of shape (5, 4)", "at offset 0", "atom of 4", "segment 1", "element 9 of it"});
  EXPECT_NO_THROW(validate_atoms(equal, {}));
  // Only the second tensor, in the middle of a run of equal segments.
  const GlobalLayout later(Policy::planned, {{2, 4}, {6, 3}}, {0, 8}, 7, 4);
  expect_invalid([&] { validate_atoms(later, {row_atom()}); },
                 {"tensor 1 of shape (6, 3)", "at offset 8", "atom of 3", "segment 3", "element 4 of it"});
  Segments cuts;
  cuts.append(1, 8);
  cuts.append(2, 0);
  cuts.append(1, 5);
  cuts.append(1, 7);
  const GlobalLayout ragged(Policy::ragged, {{5, 4}}, {0}, cuts);
  expect_invalid([&] { validate_atoms(ragged, {row_atom()}); },
                 {"tensor 0 of shape (5, 4)", "segment 4", "element 13 of it"});
  expect_invalid([&] { validate_atoms(ragged, {tensor_atom()}); }, {"atom of 20", "segment 3", "element 8 of it"});
}

// Fast where a tensor covers very many segments.
TEST(ValidateAtoms, ManySegments) {
  const std::vector<Shape> shapes{{3'000'000'000, 4}};
  EXPECT_NO_THROW(validate_atoms(build_planned(shapes, 100'000'000, {}, {row_atom()}), {row_atom()}));
  EXPECT_NO_THROW(validate_atoms(build_ragged(shapes, 100'000'000, {row_atom()}), {row_atom()}));
  expect_invalid([&] { validate_atoms(build_planned(shapes, 7), {row_atom()}); }, {"tensor 0", "atom of 4"});
}

} // namespace
} // namespace ostraka::layout::test
