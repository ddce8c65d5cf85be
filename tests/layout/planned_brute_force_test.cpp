// SPDX-License-Identifier: Apache-2.0
// The planned builder against exhaustive search on tiny sets. Two oracles, neither of which argues about earliest
// starts or bounds: all places of all tensors on a painted buffer, and all orders with all starts.
#include "layout_test.hpp"
#include "support/rounds.hpp"

#include <bitset>

namespace ostraka::layout::test {
namespace {

struct Tensor {
  std::int64_t numel;
  std::int64_t atom;
};

struct Problem {
  std::vector<Shape> shapes;
  int segments = 1;
  Alignment alignment;
  Atoms atoms;

  std::vector<Tensor> tensors() const {
    std::vector<Tensor> result;
    for (std::size_t i = 0; i < shapes.size(); ++i)
      if (naive_numel(shapes[i]) > 0)
        result.push_back({naive_numel(shapes[i]), naive_atom(atoms, i, shapes[i])});
    return result;
  }
};

constexpr std::size_t most = 256; // elements of a buffer

bool is_legal(const Tensor& tensor, std::int64_t start, std::int64_t segment, std::int64_t alignment) {
  if (start % alignment != 0)
    return false;
  for (std::int64_t element = 1; element < tensor.numel; ++element)
    if ((start + element) % segment == 0 && element % tensor.atom != 0)
      return false;
  return true;
}

// legal[t][s]: whether tensor t may start at s, and end inside the buffer.
std::vector<std::vector<bool>> legal_starts(const std::vector<Tensor>& tensors, std::int64_t segment,
                                            const Problem& problem) {
  const std::int64_t size = segment * problem.segments;
  std::vector<std::vector<bool>> legal;
  for (const Tensor& tensor : tensors) {
    legal.emplace_back(static_cast<std::size_t>(size), false);
    for (std::int64_t s = 0; s + tensor.numel <= size; ++s)
      legal.back()[static_cast<std::size_t>(s)] = is_legal(tensor, s, segment, problem.alignment.tensor);
  }
  return legal;
}

// Any free legal place for tensor `next`, then for the ones behind it.
class Painter {
public:
  Painter(const std::vector<Tensor>& tensors, std::int64_t segment, const Problem& problem)
      : tensors_(tensors), legal_(legal_starts(tensors, segment, problem)) {}

  bool fits(std::size_t next = 0, const std::bitset<most>& painted = {}) const {
    if (next == tensors_.size())
      return true;
    std::bitset<most> tensor;
    for (std::int64_t e = 0; e < tensors_[next].numel; ++e)
      tensor.set(static_cast<std::size_t>(e));
    for (std::size_t s = 0; s < legal_[next].size(); ++s)
      if (const auto here = tensor << s; legal_[next][s] && (painted & here).none() && fits(next + 1, painted | here))
        return true;
    return false;
  }

private:
  const std::vector<Tensor>& tensors_;
  std::vector<std::vector<bool>> legal_;
};

// ends[subset]: every element at which some order of the subset with some legal starts can end.
bool fits_in_some_order(const std::vector<Tensor>& tensors, std::int64_t segment, const Problem& problem) {
  const auto legal = legal_starts(tensors, segment, problem);
  std::vector<std::bitset<most + 1>> ends(std::size_t{1} << tensors.size());
  ends[0].set(0);
  for (std::size_t subset = 0; subset + 1 < ends.size(); ++subset)
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if ((subset >> t & 1) != 0)
        continue;
      bool reached = false;
      for (std::size_t s = 0; s < legal[t].size(); ++s) {
        reached = reached || ends[subset][s];
        if (reached && legal[t][s])
          ends[subset | std::size_t{1} << t].set(s + static_cast<std::size_t>(tensors[t].numel));
      }
    }
  return ends.back().any();
}

// The same for the given order alone.
bool fits_as_given(const std::vector<Tensor>& tensors, std::int64_t segment, const Problem& problem) {
  const auto legal = legal_starts(tensors, segment, problem);
  std::bitset<most + 1> ends;
  ends.set(0);
  for (std::size_t t = 0; t < tensors.size(); ++t) {
    std::bitset<most + 1> next;
    bool reached = false;
    for (std::size_t s = 0; s < legal[t].size(); ++s) {
      reached = reached || ends[s];
      if (reached && legal[t][s])
        next.set(s + static_cast<std::size_t>(tensors[t].numel));
    }
    ends = next;
  }
  return ends.any();
}

template <class Fits>
std::int64_t least_segment(const Problem& problem, Fits fits) {
  const std::vector<Tensor> tensors = problem.tensors();
  std::int64_t total = 0;
  for (const Tensor& tensor : tensors)
    total += tensor.numel;
  if (total == 0)
    return 0;
  for (std::int64_t segment = (total + problem.segments - 1) / problem.segments;; ++segment) {
    if (segment % problem.alignment.segment != 0)
      continue;
    if (segment * problem.segments > static_cast<std::int64_t>(most)) {
      ADD_FAILURE() << "the oracle's buffer is too small";
      return -1;
    }
    if (fits(tensors, segment, problem))
      return segment;
  }
}

bool fits_painted(const std::vector<Tensor>& tensors, std::int64_t segment, const Problem& problem) {
  return Painter(tensors, segment, problem).fits();
}

Problem draw_problem(Random& random, std::int64_t most_tensors, std::int64_t most_elements) {
  Problem problem;
  const auto count = static_cast<std::size_t>(random.draw(1, most_tensors));
  problem.shapes = random.shapes(count, most_elements);
  problem.atoms = random.atoms(count);
  problem.segments = static_cast<int>(random.draw(1, 4));
  problem.alignment = {random.draw(1, 4), random.draw(1, 4)};
  if (random.draw(0, 1) == 0)
    problem.alignment = {};
  return problem;
}

struct Seen {
  int above_bound = 0;
  int reordered = 0;
  int padded = 0;
};

template <class Fits>
void check_one(const Problem& problem, Fits fits, Seen& seen) {
  const auto& [shapes, segments, alignment, atoms] = problem;
  SCOPED_TRACE(describe(shapes, segments, atoms, alignment));
  const std::int64_t expected = least_segment(problem, fits);
  const GlobalLayout layout = build_planned(shapes, segments, alignment, atoms);
  ASSERT_EQ(layout.segment_size(), expected) << layout.reason();
  ASSERT_TRUE(layout.has_equal_segments());
  ASSERT_EQ(layout.segments(), segments);
  expect_legal(layout, atoms, alignment);
  validate_atoms(layout, atoms);
  const std::int64_t bound = equal_segment_bound(shapes, segments, alignment, atoms);
  ASSERT_LE(bound, expected);
  ASSERT_TRUE(layout.reason() == "the segment meets the lower bound" ||
              layout.reason() == "exact: no order of the tensors fits into smaller segments")
      << layout.reason();
  ASSERT_EQ(layout.reason() == "the segment meets the lower bound", bound == expected);
  seen.above_bound += bound < expected ? 1 : 0;
  seen.padded += layout.padding() > 0 ? 1 : 0;
  std::vector<std::int64_t> offsets; // of the tensors that hold elements
  for (int i = 0; i < layout.num_tensors(); ++i)
    if (layout.tensor_range(i).size() > 0)
      offsets.push_back(layout.tensor_range(i).begin);
  const bool in_order = std::is_sorted(offsets.begin(), offsets.end());
  ASSERT_EQ(in_order, fits_as_given(problem.tensors(), expected, problem)); // reordered only where that saves something
  seen.reordered += in_order ? 0 : 1;
}

template <class Fits>
void check_many(std::uint64_t seed, int rounds, std::int64_t tensors, std::int64_t elements, Fits fits) {
  Random random(seed);
  Seen seen;
  for (int round = 0; round < rounds && !testing::Test::HasFailure(); ++round) {
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", round " << round);
    check_one(draw_problem(random, tensors, elements), fits, seen);
  }
  // A generator that never needs the search would prove nothing.
  EXPECT_GT(seen.above_bound, rounds / 25);
  EXPECT_GT(seen.reordered, rounds / 25);
  EXPECT_GT(seen.padded, rounds / 4);
}

TEST(PlannedBruteForce, AllPlacesFixedSeed) { check_many(4, ostraka::test::rounds(5000), 4, 12, fits_painted); }
TEST(PlannedBruteForce, AllPlacesFreshSeed) {
  check_many(fresh_seed(), ostraka::test::rounds(2500), 4, 12, fits_painted);
}
TEST(PlannedBruteForce, AllOrdersFixedSeed) { check_many(6, ostraka::test::rounds(4000), 6, 10, fits_in_some_order); }
TEST(PlannedBruteForce, AllOrdersFreshSeed) {
  check_many(fresh_seed(), ostraka::test::rounds(2000), 6, 10, fits_in_some_order);
}

// The two oracles agree with each other.
TEST(PlannedBruteForce, OraclesAgree) {
  Random random(46);
  for (int round = 0; round < 300 && !testing::Test::HasFailure(); ++round) {
    const Problem problem = draw_problem(random, 4, 8);
    ASSERT_EQ(least_segment(problem, fits_painted), least_segment(problem, fits_in_some_order));
  }
}

// The bound is the least segment with room for all, under which every tensor alone has a place somewhere.
TEST(PlannedBruteForce, BoundIsWhatSingleTensorsNeed) {
  Random random(18);
  int above_room = 0;
  for (int round = 0; round < 4000 && !testing::Test::HasFailure(); ++round) {
    Problem problem = draw_problem(random, 6, random.draw(0, 3) == 0 ? 60 : 12);
    problem.segments = static_cast<int>(random.draw(1, 12));
    const auto& [shapes, segments, alignment, atoms] = problem;
    SCOPED_TRACE(describe(shapes, segments, atoms, alignment));
    std::int64_t total = 0;
    for (const Tensor& tensor : problem.tensors())
      total += tensor.numel;
    std::int64_t segment = 0;
    const auto suits = [&](const Tensor& tensor) {
      for (std::int64_t start = 0; start < segment; ++start)
        if (is_legal(tensor, start, segment, 1))
          return true;
      return false;
    };
    const auto all_suit = [&] {
      const std::vector<Tensor> tensors = problem.tensors();
      return std::all_of(tensors.begin(), tensors.end(), suits);
    };
    while (segment * segments < total || !all_suit())
      segment += alignment.segment;
    ASSERT_EQ(equal_segment_bound(shapes, segments, alignment, atoms), segment);
    above_room += (segment - alignment.segment) * segments >= total ? 1 : 0;
  }
  EXPECT_GT(above_room, 500);
}

// More tensors than the builder promises to solve exactly: how far is it off?
void check_heuristics(std::uint64_t seed, std::size_t tensors, int rounds) {
  Random random(seed);
  std::int64_t worse = 0, worst = 0;
  for (int round = 0; round < rounds; ++round) {
    Problem problem = draw_problem(random, 1, 8);
    problem.shapes = random.shapes(tensors, 8);
    problem.atoms = random.atoms(tensors);
    const std::int64_t expected = least_segment(problem, fits_in_some_order);
    const std::int64_t found =
        build_planned(problem.shapes, problem.segments, problem.alignment, problem.atoms).segment_size();
    ASSERT_GE(found, expected) << describe(problem.shapes, problem.segments, problem.atoms, problem.alignment);
    worse += found > expected ? 1 : 0;
    worst = std::max(worst, found - expected);
  }
  std::cout << tensors << " tensors: " << worse << " of " << rounds << " above the optimum, by at most " << worst
            << " elements\n";
  EXPECT_LE(worse, rounds / 10);
}

TEST(PlannedBruteForce, HeuristicsStayClose) {
  check_heuristics(79, 8, 200);
  check_heuristics(80, 12, 40);
}

} // namespace
} // namespace ostraka::layout::test
