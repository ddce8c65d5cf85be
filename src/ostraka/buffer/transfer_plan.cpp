// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/buffer/transfer_plan.hpp>

#include <algorithm>
#include <string>

namespace ostraka::buffer {

namespace {

using comm::Transfer;
using layout::Range;

/// The parts into which the Shard axes of a side cut its layout, each held by one rank of every replica. Replicate axes
/// are the outer ones, so rank = replica x count + place, and the digits of a place are those of its shard in reverse
/// (spec 1.2).
class Shards {
public:
  explicit Shards(const Side& side) : layout_(side.layout) {
    const std::vector<int> origin(side.sizes.size(), 0);
    side.layout.local_range(side.placements, {side.sizes, origin}); // checks all three
    std::int64_t ranks = 1;
    for (std::size_t axis = 0; axis < side.sizes.size(); ++axis) {
      check_no_partial(side, axis);
      ranks = multiply(ranks, side.sizes[axis], "plan_transfers: ranks");
      if (side.placements[axis].is_shard())
        sizes_.push_back(side.sizes[axis]);
    }
    ranks_ = narrow(ranks, "plan_transfers: ranks");
    for (const int size : sizes_)
      count_ *= size;
    segments_each_ = layout_.segments() / count_;
  }

  int ranks() const { return ranks_; }
  int replicas() const { return ranks_ / count_; }
  int replica_of(int rank) const { return rank / count_; }
  int shard_of(int rank) const { return reverse_digits(rank % count_, sizes_.rbegin(), sizes_.rend()); }
  int rank(int shard, int replica) const {
    return replica * count_ + reverse_digits(shard, sizes_.begin(), sizes_.end());
  }

  Range range(int shard) const {
    const int first = shard * segments_each_;
    return {layout_.cuts().begin(first), layout_.cuts().begin(first + segments_each_)};
  }
  /// The shard that holds the element at `offset` of the layout.
  int find(std::int64_t offset) const { return layout_.cuts().find(offset) / segments_each_; }

  const layout::GlobalLayout& layout() const { return layout_; }

private:
  static void check_no_partial(const Side& side, std::size_t axis) {
    if (side.placements[axis].is_partial())
      fail(Status::NOT_SUPPORTED, "plan_transfers: ", layout::to_string(side.placements), ": axis ", axis, " is ",
           layout::to_string(side.placements.subspan(axis, 1)), "; reduce it first");
  }

  /// Takes digits of `value` from the least significant one on, whose sizes follow from `size`, and puts each behind
  /// those before it.
  template <class Size>
  static int reverse_digits(int value, Size size, Size end) {
    int result = 0;
    for (; size != end; value /= *size++)
      result = result * *size + value % *size;
    return result;
  }

  const layout::GlobalLayout& layout_;
  std::vector<int> sizes_; ///< of the Shard axes, outer to inner
  int ranks_ = 1;
  int count_ = 1;
  int segments_each_ = 1;
};

/// Which replica of the source serves replica `replica` of shard `shard` of the destination, unless that rank holds the
/// elements itself. Replicas of the destination share those of the source evenly, near ones with near ones; where one
/// has several to choose from, neighbouring shards choose in turn.
int holder(const Shards& source, const Shards& destination, int replica, int shard) {
  const auto first_of = [&](std::int64_t index) { return index * source.replicas() / destination.replicas(); };
  const std::int64_t choice = std::max<std::int64_t>(first_of(replica + 1) - first_of(replica), 1);
  return static_cast<int>(first_of(replica) + shard % choice);
}

/// Calls visit(run, other) for every run of a tensor that lies in one shard of each side: `shard` of `mine`, where the
/// run is at `run` of its layout, and `other`. Ascending tensors, then elements: the order that both ends of a transfer
/// go by.
template <class Visit>
void for_runs(const Shards& mine, int shard, const Shards& theirs, Visit&& visit) {
  const Range local = mine.range(shard);
  for (int tensor = 0; tensor < mine.layout().num_tensors(); ++tensor) {
    const Range place = mine.layout().tensor_range(tensor);
    const Range own = layout::intersect(place, local);
    const std::int64_t shift = theirs.layout().tensor_range(tensor).begin - place.begin;
    for (Range run = own; run.begin < own.end; run.begin = run.end) {
      const int other = theirs.find(run.begin + shift); // not the next one: that may be empty, as may be many more
      run.end = std::min(own.end, theirs.range(other).end - shift);
      visit(run, other);
    }
  }
}

/// Calls visit(peer) for every other rank to which `rank` sends what it has of shard `shard` of the destination.
template <class Visit>
void for_receivers(const Shards& source, const Shards& destination, int rank, int shard, Visit&& visit) {
  const std::int64_t replica = source.replica_of(rank);
  // Those that the holder formula may give to this replica.
  const std::int64_t first = replica * destination.replicas() / source.replicas();
  const std::int64_t last = ((replica + 1) * destination.replicas() - 1) / source.replicas();
  for (std::int64_t candidate = first; candidate <= last; ++candidate) {
    const int peer = destination.rank(shard, static_cast<int>(candidate));
    const bool holds_it = source.shard_of(peer) == source.shard_of(rank);
    if (!holds_it && holder(source, destination, static_cast<int>(candidate), shard) == replica)
      visit(peer);
  }
}

void sort_by_peer(std::vector<Transfer>& transfers) {
  std::stable_sort(transfers.begin(), transfers.end(),
                   [](const Transfer& a, const Transfer& b) { return a.peer < b.peer; });
}

std::vector<Transfer> plan_sends(const Shards& source, const Shards& destination, int rank) {
  std::vector<Transfer> sends;
  const int own = source.shard_of(rank);
  const std::int64_t begin = source.range(own).begin;
  for_runs(source, own, destination, [&](const Range& run, int shard) {
    const auto send = [&](int peer) { sends.push_back({peer, run.begin - begin, run.size()}); };
    if (destination.shard_of(rank) == shard)
      send(rank);
    for_receivers(source, destination, rank, shard, send);
  });
  sort_by_peer(sends);
  return sends;
}

std::vector<Transfer> plan_receives(const Shards& source, const Shards& destination, int rank) {
  std::vector<Transfer> receives;
  const int own = destination.shard_of(rank);
  const std::int64_t begin = destination.range(own).begin;
  const int replica = holder(source, destination, destination.replica_of(rank), own);
  for_runs(destination, own, source, [&](const Range& run, int shard) {
    const int peer = source.shard_of(rank) == shard ? rank : source.rank(shard, replica);
    receives.push_back({peer, run.begin - begin, run.size()});
  });
  sort_by_peer(receives);
  return receives;
}

void check_shapes(const layout::GlobalLayout& from, const layout::GlobalLayout& to) {
  expect(from.num_tensors() == to.num_tensors(), Status::SHAPE_MISMATCH, "plan_transfers: expected ",
         from.num_tensors(), " tensors as before, found ", to.num_tensors());
  for (int tensor = 0; tensor < from.num_tensors(); ++tensor)
    if (from.shape(tensor) != to.shape(tensor))
      fail(Status::SHAPE_MISMATCH, "plan_transfers: tensor ", tensor, ": expected shape ",
           layout::to_string(from.shape(tensor)), " as before, found ", layout::to_string(to.shape(tensor)));
}

} // namespace

TransferPlan plan_transfers(const Side& from, const Side& to, int rank) {
  check_shapes(from.layout, to.layout);
  const Shards source(from), destination(to);
  expect(source.ranks() == destination.ranks(), Status::INVALID_ARGUMENT, "plan_transfers: expected a mesh of ",
         source.ranks(), " ranks as before, found ", destination.ranks());
  expect(rank >= 0 && rank < source.ranks(), Status::INVALID_ARGUMENT, "plan_transfers: expected a rank in [0, ",
         source.ranks(), "), found ", rank);
  return {plan_sends(source, destination, rank), plan_receives(source, destination, rank)};
}

} // namespace ostraka::buffer
