// SPDX-License-Identifier: Apache-2.0
// Whole tensors on one rank each, and who should own them. Source: spec/megatron_fsdp.md 1.6.
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/layout/impl/describe.hpp>
#include <ostraka/layout/impl/item.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace ostraka::layout {
namespace {

constexpr const char* operation = "build_tensor_atomic";

void check_owners(const std::vector<Shape>& shapes, int segments, std::span<const int> owners) {
  expect(segments >= 1, Status::INVALID_ARGUMENT, operation, ": expected segments >= 1, found ", segments);
  expect(owners.size() == shapes.size(), Status::INVALID_ARGUMENT, operation, ": number of tensor owners: expected ",
         shapes.size(), ", found ", owners.size());
  for (std::size_t i = 0; i < owners.size(); ++i)
    expect(owners[i] >= 0 && owners[i] < segments, Status::INVALID_ARGUMENT, operation, ": ",
           impl::describe(i, shapes[i]), ": expected an owner from 0 to ", segments - 1, ", found ", owners[i]);
}

// A tensor whose owner is still to be chosen.
struct Candidate {
  std::size_t group;
  int tensor;
  __int128 cost;
};

__int128 cost_of(const Shape& shape, std::int64_t steps) {
  const std::int64_t smaller = std::min(rows(shape), row_numel(shape));
  return static_cast<__int128>(numel(shape)) * (static_cast<__int128>(smaller) * steps + 1);
}

class OwnerPlanner {
public:
  OwnerPlanner(std::span<const GlobalLayout> groups, std::int64_t steps)
      : groups_(groups), steps_(steps), load_(groups.empty() ? 0 : static_cast<std::size_t>(groups[0].segments()), 0) {}

  std::vector<std::vector<int>> run() {
    std::vector<Candidate> open;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      owners_.emplace_back(static_cast<std::size_t>(groups_[g].num_tensors()), 0);
      for (int t = 0; t < groups_[g].num_tensors(); ++t)
        settle_or_keep({g, t, cost_of(groups_[g].shape(t), steps_)}, open);
    }
    std::stable_sort(open.begin(), open.end(), [](const Candidate& a, const Candidate& b) { return a.cost > b.cost; });
    for (const Candidate& candidate : open)
      give(candidate, cheapest(candidate));
    return std::move(owners_);
  }

private:
  // A tensor that one rank holds whole stays there.
  void settle_or_keep(const Candidate& candidate, std::vector<Candidate>& open) {
    const GlobalLayout::Owners held = groups_[candidate.group].owners(candidate.tensor);
    if (held.last < 0)
      return; // empty: rank 0, at no cost
    if (held.first == held.last)
      give(candidate, held.first);
    else
      open.push_back(candidate);
  }

  int cheapest(const Candidate& candidate) const {
    const GlobalLayout& layout = groups_[candidate.group];
    const GlobalLayout::Owners held = layout.owners(candidate.tensor);
    int best = held.first;
    for (int rank = held.first + 1; rank <= held.last; ++rank)
      if (load_[static_cast<std::size_t>(rank)] < load_[static_cast<std::size_t>(best)] &&
          layout.segment_range(rank).size() > 0)
        best = rank;
    return best;
  }

  void give(const Candidate& candidate, int rank) {
    owners_[candidate.group][static_cast<std::size_t>(candidate.tensor)] = rank;
    load_[static_cast<std::size_t>(rank)] += candidate.cost;
  }

  std::span<const GlobalLayout> groups_;
  std::int64_t steps_;
  std::vector<__int128> load_;
  std::vector<std::vector<int>> owners_;
};

} // namespace

GlobalLayout build_tensor_atomic(std::vector<Shape> shapes, int segments, std::span<const int> owners) {
  check_owners(shapes, segments, owners);
  // Stable: tensors of an owner keep their order.
  std::vector<std::size_t> order(shapes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return owners[a] < owners[b]; });
  std::vector<std::int64_t> offsets(shapes.size());
  Segments cuts;
  std::int64_t end = 0;
  for (const std::size_t i : order) {
    if (owners[i] > cuts.count()) {
      cuts.append(1, end - cuts.size());
      cuts.append(owners[i] - cuts.count(), 0);
    }
    offsets[i] = end;
    end = add(end, impl::numel_of(operation, i, shapes[i]), "build_tensor_atomic: size");
  }
  cuts.append(1, end - cuts.size());
  cuts.append(segments - cuts.count(), 0);
  return {Policy::tensor_atomic, std::move(shapes), std::move(offsets), std::move(cuts), "owners as given"};
}

std::vector<std::vector<int>> plan_owners(std::span<const GlobalLayout> groups, std::int64_t steps) {
  expect(steps >= 0, Status::INVALID_ARGUMENT, "plan_owners: expected steps >= 0, found ", steps);
  for (const GlobalLayout& group : groups)
    expect(group.segments() == groups[0].segments(), Status::INVALID_ARGUMENT,
           "plan_owners: expected groups of equal numbers of segments, found ", groups[0].segments(), " and ",
           group.segments());
  return OwnerPlanner(groups, steps).run();
}

} // namespace ostraka::layout
