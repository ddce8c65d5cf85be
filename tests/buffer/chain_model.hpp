// SPDX-License-Identifier: Apache-2.0
// What all ranks should hold after a chain of operations, in plain vectors. Of the library it uses the offsets of
// tensors and segments only; ranges, orders and arithmetic are written again.
#pragma once

#include "reduction_model.hpp"

#include <random>

namespace ostraka::buffer::test {

using Random = std::mt19937;

inline int pick(Random& random, int low, int high) {
  return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
}

/// Where the elements of all tensors, one tensor after the other, stand in a layout.
inline std::vector<std::int64_t> places_in(const GlobalLayout& layout) {
  std::vector<std::int64_t> places;
  for (int t = 0; t < layout.num_tensors(); ++t)
    for (std::int64_t e = layout.tensor_range(t).begin; e < layout.tensor_range(t).end; ++e)
      places.push_back(e);
  return places;
}

/// Every rank has a value for each element of the tensors, which means something if its range holds the element.
struct Model {
  std::vector<int> sizes;
  LayoutPtr layout;
  Placements placements;
  DType dtype;
  std::vector<std::int64_t> places;
  std::vector<std::vector<double>> held; ///< [rank][element of the tensors]

  bool holds(int r, std::size_t e) const {
    return range_of(*layout, placements, sizes, r).contains({places[e], places[e] + 1});
  }

  /// The ranks that differ from `r` on `axis` only, in order.
  std::vector<std::size_t> line(int r, std::size_t axis) const {
    std::vector<std::size_t> members;
    for (int other = 0; other < ranks; ++other) {
      auto a = coordinates_of(r, sizes), b = coordinates_of(other, sizes);
      a[axis] = b[axis] = 0;
      if (a == b)
        members.push_back(static_cast<std::size_t>(other));
    }
    return members;
  }

  double value_after(std::size_t axis, int r, std::size_t e, const std::vector<std::size_t>& members) const {
    const Placement& from = placements[axis];
    if (from.is_partial()) {
      std::vector<double> values;
      for (const std::size_t member : members)
        values.push_back(held[member][e]);
      return reduced(from.op, dtype, values);
    }
    if (from.is_shard())
      for (const std::size_t member : members)
        if (holds(static_cast<int>(member), e))
          return held[member][e];
    return held[static_cast<std::size_t>(r)][e];
  }

  void change(std::size_t axis, Placement to) {
    Model next = *this;
    next.placements[axis] = to;
    for (int r = 0; r < ranks; ++r) {
      const std::vector<std::size_t> members = line(r, axis);
      for (std::size_t e = 0; e < places.size(); ++e)
        if (next.holds(r, e))
          next.held[static_cast<std::size_t>(r)][e] = value_after(axis, r, e, members);
    }
    *this = std::move(next);
  }

  /// In the order of buffer/plan.hpp.
  void redistribute(const Placements& to) {
    const std::size_t axes = sizes.size();
    const auto differs = [&](std::size_t axis) { return !(placements[axis] == to[axis]); };
    for (std::size_t axis = axes; axis-- > 0;)
      if (differs(axis) && to[axis].is_shard())
        change(axis, to[axis]);
    for (std::size_t axis = 0; axis < axes; ++axis)
      if (differs(axis) && placements[axis].is_partial())
        change(axis, to[axis]);
    for (std::size_t axis = 0; axis < axes; ++axis)
      if (differs(axis))
        change(axis, to[axis]);
  }

  void cast(DType to) {
    for (auto& values : held)
      for (double& value : values)
        value = converted(value, to);
    dtype = to;
  }

  /// The same tensors elsewhere; no Partial on either side.
  void transfer(std::vector<int> new_sizes, LayoutPtr new_layout, Placements to) {
    std::vector<double> whole(places.size());
    for (std::size_t e = 0; e < whole.size(); ++e)
      for (int r = 0; r < ranks; ++r)
        if (holds(r, e))
          whole[e] = held[static_cast<std::size_t>(r)][e];
    held.assign(held.size(), whole);
    sizes = std::move(new_sizes);
    layout = std::move(new_layout);
    placements = std::move(to);
    places = places_in(*layout);
  }

  /// This rank's values by place in the layout.
  Values own() const {
    std::vector<double> by_place(static_cast<std::size_t>(layout->size()));
    for (std::size_t e = 0; e < places.size(); ++e)
      by_place[static_cast<std::size_t>(places[e])] = held[static_cast<std::size_t>(rank)][e];
    return [by_place](std::int64_t i) { return by_place[static_cast<std::size_t>(i)]; };
  }
};

inline bool has(const Placements& placements, ReduceOp op) {
  return std::count(placements.begin(), placements.end(), partial(op)) > 0;
}
inline bool has_partial(const Placements& placements) {
  return std::any_of(placements.begin(), placements.end(), [](const Placement& p) { return p.is_partial(); });
}

/// Draws new contents, equal on ranks that differ on Replicate or Shard axes only. Rough ones have all bits of a 16-bit
/// type and show its rounding. Else small whole numbers: reductions of eight of them are exact in every type and order,
/// multiples of 24 for the means over 2, 3, 4, 6, 8 ranks and any two of them; with products 1 and 2, equal on the
/// ranks of a mean.
inline void draw_contents(Random& random, Model& model, bool is_rough) {
  const unsigned salt = random() % 1000;
  const bool has_product = has(model.placements, ReduceOp::prod);
  for (int r = 0; r < ranks; ++r) {
    unsigned group = salt;
    const std::vector<int> coordinates = coordinates_of(r, model.sizes);
    for (std::size_t axis = 0; axis < model.sizes.size(); ++axis)
      if (model.placements[axis].is_partial() && !(has_product && model.placements[axis] == A))
        group = group * 5 + static_cast<unsigned>(coordinates[axis]) + 1;
    for (unsigned e = 0; e < model.places.size(); ++e) {
      const unsigned mixed = e * 7 + e / 5 + group * 3;
      const double sign = model.dtype != DType::u8 && mixed % 5 == 0 ? -1 : 1;
      double value = has_product ? sign * (1 + mixed % 2) : sign * 24 * (mixed % 6);
      if (is_rough)
        value =
            sign * converted(std::ldexp(1024 + (mixed * 2654435761u >> 20) % 1024, -11 - static_cast<int>(mixed % 3)),
                             model.dtype);
      model.held[static_cast<std::size_t>(r)][e] = value;
    }
  }
}

/// Whether buffer/plan.hpp has a way; its rules are spelled out and tested one by one in plan_test.cpp.
inline bool is_legal(const Placements& from, const Placements& to) {
  std::vector<ReduceOp> reductions;
  for (std::size_t axis = 0; axis < from.size(); ++axis) {
    const Placement &a = from[axis], &b = to[axis];
    if (axis > 0 && to[axis - 1].is_shard() && !b.is_shard())
      return false;
    if (a == b)
      continue;
    if (a.is_partial() && !b.is_partial())
      reductions.push_back(a.op);
    else if (b.is_partial() && !(a.is_replicate() && (b == A || b == Max || b == Min)))
      return false;
  }
  const auto is_linear = [](ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::mean; };
  return std::all_of(reductions.begin(), reductions.end(),
                     [&](ReduceOp op) { return op == reductions[0] || (is_linear(op) && is_linear(reductions[0])); });
}

inline Placements draw_placements(Random& random, std::size_t axes, DType dtype, bool with_partial = true) {
  const Placement kinds[] = {R, R, P, Max, Min, Prod, A};
  const int last = !with_partial ? 1 : is_floating(dtype) ? 6 : 5;
  Placements placements;
  const std::size_t first_shard = random() % (axes + 1);
  for (std::size_t axis = 0; axis < axes; ++axis)
    placements.push_back(axis >= first_shard ? S : kinds[pick(random, 0, last)]);
  return placements;
}

inline std::vector<Shape> draw_shapes(Random& random) {
  std::vector<Shape> shapes;
  for (int tensor = pick(random, 1, 4); tensor > 0; --tensor) {
    Shape shape;
    if (random() % 8 != 0) // else a scalar
      shape.push_back(pick(random, 0, 7));
    for (int dims = shape.empty() ? 0 : pick(random, 0, 2); dims > 0; --dims)
      shape.push_back(pick(random, 1, 4));
    shapes.push_back(shape);
  }
  return shapes;
}

inline LayoutPtr draw_layout(Random& random, const std::vector<Shape>& shapes) {
  const int segments = ranks * pick(random, 1, 2);
  const Alignment alignment{pick(random, 1, 8), pick(random, 1, 8)};
  const Atoms atoms{random() % 2 == 0 ? element_atom() : row_atom()};
  std::vector<int> owners;
  for (std::size_t i = 0; i < shapes.size(); ++i)
    owners.push_back(pick(random, 0, segments - 1));
  switch (pick(random, 0, 4)) {
  case 0:
    return reference_of(shapes, segments);
  case 1:
    return share(build_planned(shapes, segments, alignment, atoms));
  case 2:
    return share(build_ragged(shapes, segments, atoms));
  case 3:
    return share(build_flat(shapes, segments, alignment));
  default:
    return share(build_tensor_atomic(shapes, segments, owners));
  }
}

} // namespace ostraka::buffer::test
