// SPDX-License-Identifier: Apache-2.0
// A model of redistribution that knows the steps but not the planner: all ranks of a mesh hold values, and a step does
// to them what its name says. It shares no code with the library but the cuts of the layout.
#pragma once

#include <ostraka/buffer/plan.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <vector>

namespace ostraka::buffer::test {

using namespace ostraka::layout;

/// Numbers modulo a prime: sums, means and products are exact, and a wrong one is never right by chance.
using Number = std::uint64_t;
constexpr Number prime = 2147483647;

inline Number power(Number base, Number exponent) {
  Number result = 1;
  for (; exponent > 0; exponent /= 2, base = base * base % prime)
    result = exponent % 2 == 1 ? result * base % prime : result;
  return result;
}

inline Number reduce(ReduceOp op, const std::vector<Number>& values) {
  Number result = values[0];
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (op == ReduceOp::max)
      result = std::max(result, values[i]);
    else if (op == ReduceOp::min)
      result = std::min(result, values[i]);
    else if (op == ReduceOp::prod)
      result = result * values[i] % prime;
    else
      result = (result + values[i]) % prime;
  }
  return op == ReduceOp::mean ? result * power(values.size(), prime - 2) % prime : result;
}

/// A random number for each pair; equal calls give equal numbers.
inline Number hashed(std::uint64_t a, std::uint64_t b) {
  std::uint64_t mixed = a * 0x9e3779b97f4a7c15ULL + b + 1;
  for (const int shift : {30, 27, 31})
    mixed = (mixed ^ (mixed >> shift)) * 0xbf58476d1ce4e5b9ULL;
  return mixed % prime;
}

inline bool is_suffix(const Placements& placements) {
  return std::is_sorted(placements.begin(), placements.end(),
                        [](const Placement& a, const Placement& b) { return !a.is_shard() && b.is_shard(); });
}

struct Mesh {
  std::vector<int> sizes;

  int ranks() const { return std::accumulate(sizes.begin(), sizes.end(), 1, std::multiplies<>()); }

  std::vector<int> coordinates(int rank) const {
    std::vector<int> result(sizes.size());
    for (std::size_t axis = sizes.size(); axis-- > 0; rank /= sizes[axis])
      result[axis] = rank % sizes[axis];
    return result;
  }

  /// The ranks that differ from `rank` on `axis` only, by their coordinates there.
  std::vector<int> line(int rank, std::size_t axis) const {
    int stride = 1;
    for (std::size_t inner = axis + 1; inner < sizes.size(); ++inner)
      stride *= sizes[inner];
    const int first = rank - coordinates(rank)[axis] * stride;
    std::vector<int> members;
    for (int i = 0; i < sizes[axis]; ++i)
      members.push_back(first + i * stride);
    return members;
  }
};

/// What a rank holds: values of the elements from `begin` on.
struct Held {
  std::int64_t begin = 0;
  std::vector<Number> values;

  Range range() const { return {begin, begin + static_cast<std::int64_t>(values.size())}; }
  Number at(std::int64_t element) const { return values[static_cast<std::size_t>(element - begin)]; }
  Held part(const Range& range) const {
    Held result{range.begin, {}};
    for (std::int64_t element = range.begin; element < range.end; ++element)
      result.values.push_back(at(element));
    return result;
  }
  bool operator==(const Held&) const = default;
};

/// All ranks of a mesh, under some placements.
struct World {
  const Mesh& mesh;
  const GlobalLayout& layout;
  Placements placements;
  std::vector<Held> held = {};

  /// What `rank` should hold: all segments, cut once per Shard axis from the innermost out.
  Range range(int rank) const {
    const std::vector<int> coordinates = mesh.coordinates(rank);
    int first = 0, count = layout.segments();
    for (std::size_t axis = mesh.sizes.size(); axis-- > 0;)
      if (placements[axis].is_shard()) {
        count /= mesh.sizes[axis];
        first += coordinates[axis] * count;
      }
    std::int64_t begin = 0, size = 0;
    for (int segment = 0; segment < first + count; ++segment)
      (segment < first ? begin : size) += layout.segment_range(segment).size();
    return {begin, begin + size};
  }

  /// Fills with contributions: the same on all ranks of an axis unless it is Partial.
  void fill() {
    for (int rank = 0; rank < mesh.ranks(); ++rank) {
      const Range own = range(rank);
      held.push_back({own.begin, {}});
      for (std::int64_t element = own.begin; element < own.end; ++element)
        held.back().values.push_back(contribution(mesh.coordinates(rank), element));
    }
  }

  Number contribution(std::vector<int> coordinates, std::int64_t element) const {
    std::uint64_t who = 0;
    for (std::size_t axis = 0; axis < placements.size(); ++axis)
      who = who * 8 + static_cast<std::uint64_t>(placements[axis].is_partial() ? coordinates[axis] + 1 : 0);
    return hashed(who, static_cast<std::uint64_t>(element));
  }

  /// The value of an element at `coordinates` once all axes from `axis` on that differ under `to` are reduced.
  Number meaning(const Placements& to, std::size_t axis, std::vector<int> coordinates, std::int64_t element) const {
    if (axis == placements.size())
      return contribution(coordinates, element);
    if (!placements[axis].is_partial() || to[axis] == placements[axis])
      return meaning(to, axis + 1, coordinates, element);
    std::vector<Number> values;
    for (coordinates[axis] = 0; coordinates[axis] < mesh.sizes[axis]; ++coordinates[axis])
      values.push_back(meaning(to, axis + 1, coordinates, element));
    return reduce(placements[axis].op, values);
  }

  std::vector<const Held*> line(int rank, int axis) const {
    std::vector<const Held*> members;
    for (const int member : mesh.line(rank, static_cast<std::size_t>(axis)))
      members.push_back(&held[static_cast<std::size_t>(member)]);
    return members;
  }

  Held reduced(int rank, int axis) const {
    const auto members = line(rank, axis);
    Held result = *members[0];
    for (std::size_t i = 0; i < result.values.size(); ++i) {
      std::vector<Number> values;
      for (const Held* member : members) {
        EXPECT_EQ(member->range(), result.range()) << "a reduction of different elements";
        values.push_back(member->values[i]);
      }
      result.values[i] = reduce(placements[static_cast<std::size_t>(axis)].op, values);
    }
    return result;
  }

  Held gathered(int rank, int axis) const {
    Held result{line(rank, axis)[0]->begin, {}};
    for (const Held* member : line(rank, axis)) {
      EXPECT_EQ(member->begin, result.range().end) << "a gather of parts that are not neighbours";
      result.values.insert(result.values.end(), member->values.begin(), member->values.end());
    }
    return result;
  }

  /// The step on one rank; `after` is what the placements after it mean.
  Held carried_out(const RedistributeStep& step, int rank, const Range& after) const {
    const Held& own = held[static_cast<std::size_t>(rank)];
    switch (step.kind) {
    case RedistributeStep::Kind::view:
      return own.part(after);
    case RedistributeStep::Kind::relabel:
      return own;
    case RedistributeStep::Kind::allgather:
      return gathered(rank, step.axis);
    case RedistributeStep::Kind::reduce_scatter:
      return reduced(rank, step.axis).part(after);
    case RedistributeStep::Kind::allreduce:
      return reduced(rank, step.axis);
    }
    return {};
  }
};

} // namespace ostraka::buffer::test
