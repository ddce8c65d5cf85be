// SPDX-License-Identifier: Apache-2.0
// The planned builder: the least equal segment for which an order and places of the tensors are found.
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/layout/impl/arrange.hpp>
#include <ostraka/layout/impl/item.hpp>

#include <algorithm>
#include <optional>
#include <utility>

namespace ostraka::layout {
namespace {

using impl::Arrangement;
using impl::Item;

// For up to this many items, all segments between the bound and the best one found are tried.
constexpr std::size_t max_items_of_exact_search = 6;

struct Plan {
  std::int64_t segment = 0;
  Arrangement offsets;
  std::string reason;
  bool is_least = false; ///< no smaller segment is possible
};

class Planner {
public:
  Planner(const std::vector<Item>& items, int segments, const Alignment& alignment)
      : items_(items), segments_(segments), alignment_(alignment),
        bound_(impl::least_segment(items, segments, alignment.segment)) {}

  Plan run() {
    if (const auto found = impl::arrange(items_, segments_, bound_, alignment_.tensor))
      return {bound_, *found, "the segment meets the lower bound", true};
    Plan plan = gallop();
    narrow_down(plan);
    return items_.size() <= max_items_of_exact_search ? exact(std::move(plan)) : plan;
  }

private:
  std::int64_t candidate(std::int64_t at_least) const {
    return impl::next_segment(items_, at_least, alignment_.segment);
  }

  // Doubles the distance from the bound until an arrangement is found; everything in one segment always is one.
  Plan gallop() {
    for (std::int64_t distance = alignment_.segment;; distance *= 2) {
      const std::int64_t segment = candidate(add(bound_, distance, "build_planned: segment"));
      if (const auto found = impl::arrange(items_, segments_, segment, alignment_.tensor))
        return {segment, *found, "found by heuristics", false};
      infeasible_ = segment;
    }
  }

  // Bisects towards the largest segment without an arrangement. Feasibility is not quite monotone, so this is a search,
  // not a proof.
  void narrow_down(Plan& plan) {
    infeasible_ = std::max(infeasible_, bound_);
    while (true) {
      std::int64_t middle = candidate(infeasible_ + (plan.segment - infeasible_) / 2);
      if (middle <= infeasible_ || middle >= plan.segment)
        middle = candidate(infeasible_ + 1);
      if (middle >= plan.segment)
        return;
      if (const auto found = impl::arrange(items_, segments_, middle, alignment_.tensor)) {
        plan.segment = middle;
        plan.offsets = *found;
      } else {
        infeasible_ = middle;
      }
    }
  }

  // Tries every candidate between the bound and the best so far over all orders, if there are not too many.
  Plan exact(Plan plan) const {
    constexpr int max_candidates = 20000;
    std::int64_t segment = bound_;
    for (int tried = 0; segment < plan.segment; ++tried, segment = candidate(segment + 1)) {
      if (tried == max_candidates)
        return plan;
      if (const auto found = impl::arrange(items_, segments_, segment, alignment_.tensor))
        return {segment, *found, "exact: no order of the tensors fits into smaller segments", true};
    }
    plan.reason = "exact: no order of the tensors fits into smaller segments";
    plan.is_least = true;
    return plan;
  }

  const std::vector<Item>& items_;
  int segments_;
  Alignment alignment_;
  std::int64_t bound_;
  std::int64_t infeasible_ = 0;
};

// Whether every tensor of `layout` stands and is cut as its atom and the alignment ask for.
bool suits(const GlobalLayout& layout, const std::vector<Item>& items, const Alignment& alignment) {
  const std::int64_t segment = layout.segment_size();
  if (segment % alignment.segment != 0)
    return false;
  return std::all_of(items.begin(), items.end(), [&](const Item& item) {
    const Range range = layout.tensor_range(static_cast<int>(item.tensor));
    if (range.begin % alignment.tensor != 0)
      return false;
    for (std::int64_t cut = (range.begin / segment + 1) * segment; cut < range.end; cut += segment)
      if ((cut - range.begin) % item.atom != 0)
        return false;
    return true;
  });
}

// The heuristics miss the reference rule now and then, by a few percent.
std::optional<GlobalLayout> smaller_reference(const std::vector<Shape>& shapes, int segments,
                                              const std::vector<Item>& items, const Alignment& alignment,
                                              std::int64_t segment) {
  try {
    GlobalLayout reference = build_reference(shapes, segments);
    if (reference.segment_size() < segment && suits(reference, items, alignment))
      return reference;
  } catch (const Error&) { // its common multiple may not fit into 64 bits
  }
  return std::nullopt;
}

// Empty tensors stand at the begin, where they cost nothing.
std::vector<std::int64_t> tensor_offsets(std::size_t count, const std::vector<Item>& items,
                                         const Arrangement& arrangement) {
  std::vector<std::int64_t> offsets(count, 0);
  for (std::size_t i = 0; i < items.size(); ++i)
    offsets[items[i].tensor] = arrangement[i];
  return offsets;
}

GlobalLayout plan_layout(Policy policy, const char* operation, std::vector<Shape> shapes, int segments,
                         const Alignment& alignment, const Atoms& atoms) {
  impl::check_alignment(operation, alignment);
  const std::vector<Item> items = impl::items_of(operation, shapes, segments, atoms);
  Plan plan = Planner(items, segments, alignment).run();
  if (!plan.is_least)
    if (const auto reference = smaller_reference(shapes, segments, items, alignment, plan.segment)) {
      plan = {reference->segment_size(), {}, "the reference rule, which needs less than what heuristics found", false};
      for (const Item& item : items)
        plan.offsets.push_back(reference->tensor_range(static_cast<int>(item.tensor)).begin);
    }
  auto offsets = tensor_offsets(shapes.size(), items, plan.offsets);
  return {policy, std::move(shapes), std::move(offsets), Segments::equal(segments, plan.segment),
          std::move(plan.reason)};
}

} // namespace

GlobalLayout build_planned(std::vector<Shape> shapes, int segments, const Alignment& alignment, const Atoms& atoms) {
  return plan_layout(Policy::planned, "build_planned", std::move(shapes), segments, alignment, atoms);
}

GlobalLayout build_flat(std::vector<Shape> shapes, int segments, const Alignment& alignment) {
  return plan_layout(Policy::flat, "build_flat", std::move(shapes), segments, alignment, {});
}

std::int64_t equal_segment_bound(std::span<const Shape> shapes, int segments, const Alignment& alignment,
                                 const Atoms& atoms) {
  impl::check_alignment("equal_segment_bound", alignment);
  const auto items = impl::items_of("equal_segment_bound", {shapes.begin(), shapes.end()}, segments, atoms);
  return impl::least_segment(items, segments, alignment.segment);
}

} // namespace ostraka::layout
