// SPDX-License-Identifier: Apache-2.0
// Random shape sets: the reference builder against a second reading of spec 1.4 and against the invariants.
#include "layout_test.hpp"
#include "support/rounds.hpp"

#include <deque>
#include <numeric>

namespace ostraka::layout::test {
namespace {

struct Expected {
  std::vector<std::int64_t> offsets;
  std::int64_t size = 0;
  int conjugates = 0; ///< how often the rule was used
  int in_gaps = 0;
};

/// Spec 1.4.2 - 1.4.4 line by line on lists that shrink; deliberately nothing like the library's code.
class Oracle {
public:
  Oracle(const std::vector<Shape>& shapes, std::int64_t segments, std::int64_t block) {
    for (const Shape& shape : shapes) {
      std::int64_t row = 1;
      for (std::size_t d = 1; d < shape.size(); ++d)
        row *= shape[d];
      numel_.push_back(shape.empty() ? 1 : shape[0] * row);
      row_.push_back(block * row); // a block stands wherever the spec says row
      chunk_ = std::lcm(chunk_, block * row);
    }
    result_.offsets.assign(shapes.size(), -1);
    split();
    while (!regulars_.empty())
      next_regular();
    for (const std::size_t f : fragments_) {
      current_ = up(current_, row_[f]);
      result_.offsets[f] = current_;
      current_ += numel_[f];
    }
    result_.size = up(current_, chunk_ * segments);
  }

  const Expected& result() const { return result_; }

private:
  static std::int64_t up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

  void split() {
    for (std::size_t i = 0; i < numel_.size(); ++i) {
      if (numel_[i] >= chunk_) {
        regulars_.push_back(i);
        continue;
      }
      // Insertion behind everything that is not smaller keeps equal ones in their order.
      auto at = fragments_.begin();
      while (at != fragments_.end() && numel_[*at] >= numel_[i])
        ++at;
      fragments_.insert(at, i);
    }
  }

  void next_regular() {
    const std::size_t t = regulars_.front();
    regulars_.pop_front();
    result_.offsets[t] = current_;
    if (numel_[t] % chunk_ == 0) {
      current_ += numel_[t];
      return;
    }
    std::int64_t gap = current_ + numel_[t];
    current_ += up(numel_[t], chunk_);
    std::int64_t end = current_;
    const std::int64_t rem = numel_[t] % chunk_;
    for (auto c = regulars_.begin(); c != regulars_.end(); ++c)
      if (numel_[*c] % chunk_ != 0 && rem + numel_[*c] % chunk_ <= chunk_) {
        end = result_.offsets[*c] = current_ - numel_[*c] % chunk_;
        current_ += numel_[*c] / chunk_ * chunk_;
        regulars_.erase(c);
        ++result_.conjugates;
        break;
      }
    std::deque<std::size_t> unplaced;
    for (const std::size_t f : fragments_) {
      const std::int64_t a = up(gap, row_[f]);
      if (a + numel_[f] > end) {
        unplaced.push_back(f);
        continue;
      }
      result_.offsets[f] = a;
      gap = a + numel_[f];
      ++result_.in_gaps;
    }
    fragments_ = unplaced;
  }

  std::int64_t chunk_ = 1;
  std::int64_t current_ = 0;
  std::vector<std::int64_t> row_;
  std::vector<std::int64_t> numel_;
  std::deque<std::size_t> regulars_;
  std::deque<std::size_t> fragments_;
  Expected result_;
};

/// Each element of the buffer belongs to one tensor at most; painted one by one, hence for small buffers only.
void expect_painted_once(const GlobalLayout& layout) {
  std::vector<int> painted(static_cast<std::size_t>(layout.size()), 0);
  for (int i = 0; i < layout.num_tensors(); ++i)
    for (std::int64_t e = layout.tensor_range(i).begin; e < layout.tensor_range(i).end; ++e)
      ASSERT_EQ(painted[static_cast<std::size_t>(e)]++, 0) << "element " << e << " of tensor " << i;
  for (const Range& gap : layout.gaps({0, layout.size()}))
    for (std::int64_t e = gap.begin; e < gap.end; ++e)
      ASSERT_EQ(painted[static_cast<std::size_t>(e)]++, 0) << "element " << e << " of a gap";
  for (std::size_t e = 0; e < painted.size(); ++e)
    ASSERT_EQ(painted[e], 1) << "element " << e;
}

void expect_cuts_between_blocks(const GlobalLayout& layout, int segments, std::int64_t block) {
  for (int k = 1; k < segments; ++k) {
    const std::int64_t cut = k * (layout.size() / segments);
    for (int i = 0; i < layout.num_tensors(); ++i) {
      const Range tensor = layout.tensor_range(i);
      std::int64_t row = block;
      for (std::size_t d = 1; d < layout.shape(i).size(); ++d)
        row *= layout.shape(i)[d];
      if (tensor.begin < cut && cut < tensor.end) {
        ASSERT_EQ((cut - tensor.begin) % row, 0) << "cut " << cut << " in tensor " << i;
      }
    }
  }
}

/// Ranks of a mesh (outer, inner), both sharded, hold disjoint ranges that make up the buffer, at the offsets of the
/// formula of spec 1.2, inside the range that they hold when only the inner axis is sharded.
void expect_owned_once(const GlobalLayout& layout, int outer, int inner) {
  const std::vector<int> sizes{outer, inner};
  const std::vector<Placement> both{shard(), shard()};
  const std::vector<Placement> one{replicate(), shard()};
  std::vector<std::int64_t> owned(static_cast<std::size_t>(layout.num_tensors()), 0);
  std::int64_t total = 0;
  for (int o = 0; o < outer; ++o)
    for (int i = 0; i < inner; ++i) {
      const std::vector<int> coordinates{o, i};
      const Range local = layout.local_range(both, {sizes, coordinates});
      ASSERT_EQ(local.begin, i * (layout.size() / inner) + o * (layout.size() / (inner * outer)));
      ASSERT_TRUE(layout.local_range(one, {sizes, coordinates}).contains(local));
      total += local.size();
      std::int64_t used = 0;
      for (int t = 0; t < layout.num_tensors(); ++t) {
        const std::int64_t count = intersect(layout.tensor_range(t), local).size();
        owned[static_cast<std::size_t>(t)] += count;
        used += count;
      }
      for (const Range& gap : layout.gaps(local))
        used += gap.size();
      ASSERT_EQ(used, local.size());
    }
  ASSERT_EQ(total, layout.size());
  for (int t = 0; t < layout.num_tensors(); ++t)
    ASSERT_EQ(owned[static_cast<std::size_t>(t)], numel(layout.shape(t)));
}

class RandomShapes {
public:
  explicit RandomShapes(std::uint64_t seed) : random_(seed) {}

  /// Every dimension 0 a multiple of `block`; a scalar has none.
  std::vector<Shape> in_blocks(std::vector<Shape> shapes, int block) {
    for (Shape& each : shapes)
      if (each.empty() && block > 1)
        each = {block};
      else if (!each.empty())
        each[0] *= block;
    return shapes;
  }

  int draw(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }

  /// Few distinct row lengths, so that chunks stay small and conjugates, gaps and leftovers all occur.
  Shape shape() {
    const int dims = draw(0, 9) == 0 ? 0 : draw(1, 3);
    Shape result;
    if (dims > 0)
      result.push_back(draw(0, 7) == 0 ? 0 : draw(1, 20));
    for (int d = 1; d < dims; ++d)
      result.push_back(draw(0, 9) == 0 ? draw(1, 11) : draw(1, 4));
    return result;
  }

  std::vector<Shape> shapes() {
    std::vector<Shape> result(static_cast<std::size_t>(draw(0, 9) == 0 ? draw(10, 30) : draw(0, 9)));
    for (Shape& each : result)
      each = shape();
    return result;
  }

private:
  std::mt19937_64 random_;
};

struct Seen {
  int conjugates = 0;
  int in_gaps = 0;
  int painted = 0;
};

void check_one(RandomShapes& random, Seen& seen) {
  const int block = random.draw(0, 2) == 0 ? random.draw(2, 4) : 1;
  const std::vector<Shape> shapes = random.in_blocks(random.shapes(), block);
  const int outer = random.draw(1, 3);
  const int inner = random.draw(1, 4);
  const int segments = outer * inner;
  std::string text;
  for (const Shape& shape : shapes)
    text += to_string(shape);
  SCOPED_TRACE(text + " on " + std::to_string(outer) + " x " + std::to_string(inner) + " in blocks of " +
               std::to_string(block));
  const GlobalLayout layout = build_reference(shapes, segments, block);
  const Oracle oracle(shapes, segments, block);
  ASSERT_EQ(offsets_of(layout), oracle.result().offsets);
  ASSERT_EQ(layout.size(), oracle.result().size);
  ASSERT_EQ(layout.segment_size() * segments, layout.size());
  ASSERT_EQ(layout.payload() + layout.padding(), layout.size());
  for (int i = 0; i < layout.num_tensors(); ++i)
    ASSERT_EQ(layout.tensor_range(i).begin % (block * row_numel(shapes[static_cast<std::size_t>(i)])), 0);
  expect_cuts_between_blocks(layout, segments, block);
  expect_owned_once(layout, outer, inner);
  if (layout.size() <= 4096) {
    expect_painted_once(layout);
    ++seen.painted;
  }
  seen.conjugates += oracle.result().conjugates;
  seen.in_gaps += oracle.result().in_gaps;
}

void check_many(std::uint64_t seed, int rounds) {
  RandomShapes random(seed);
  Seen seen;
  for (int round = 0; round < rounds; ++round) {
    check_one(random, seen);
    if (testing::Test::HasFatalFailure() || testing::Test::HasFailure())
      FAIL() << "seed " << seed << ", round " << round;
  }
  // A generator that misses the rules would prove nothing.
  EXPECT_GT(seen.conjugates, rounds / 50);
  EXPECT_GT(seen.in_gaps, rounds / 10);
  EXPECT_GT(seen.painted, rounds / 2);
}

TEST(ReferenceProperties, FixedSeed) { check_many(1404, ostraka::test::rounds(5000)); }

TEST(ReferenceProperties, FreshSeed) { check_many(fresh_seed(), ostraka::test::rounds(5000)); }

} // namespace
} // namespace ostraka::layout::test
