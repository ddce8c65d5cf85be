// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/impl/arrange.hpp>
#include <ostraka/layout/impl/sweep.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace ostraka::layout::impl {
namespace {

using Order = std::vector<std::size_t>;

std::int64_t capacity_of(int segments, std::int64_t segment) {
  return multiply(segments, segment, "planned layout: size");
}

// Places items one after the other, each into the first gap that an earlier one left and that has room, or at the end.
class FirstFit {
public:
  FirstFit(const std::vector<Item>& items, const Sweep& sweep, std::int64_t capacity)
      : items_(items), sweep_(sweep), capacity_(capacity), starts_(items.size()) {}

  std::optional<Arrangement> run(const Order& order) {
    for (const std::size_t index : order)
      if (!place_in_gap(index) && !place_at_end(index))
        return std::nullopt;
    return starts_;
  }

private:
  bool place_in_gap(std::size_t index) {
    const Item& item = items_[index];
    for (std::size_t g = 0; g < gaps_.size(); ++g) {
      const Range gap = gaps_[g];
      if (gap.size() < item.numel)
        continue;
      const auto start = sweep_.start(item, gap.begin, gap.end);
      if (!start || item.numel > gap.end - *start)
        continue;
      starts_[index] = *start;
      gaps_.erase(gaps_.begin() + static_cast<std::ptrdiff_t>(g));
      keep_gap({gap.begin, *start});
      keep_gap({*start + item.numel, gap.end});
      return true;
    }
    return false;
  }

  bool place_at_end(std::size_t index) {
    const Item& item = items_[index];
    const auto start = sweep_.start(item, end_, capacity_);
    if (!start || item.numel > capacity_ - *start)
      return false;
    starts_[index] = *start;
    keep_gap({end_, *start});
    end_ = *start + item.numel;
    return true;
  }

  void keep_gap(const Range& gap) {
    if (gap.size() > 0)
      gaps_.push_back(gap);
  }

  const std::vector<Item>& items_;
  const Sweep& sweep_;
  std::int64_t capacity_;
  Arrangement starts_;
  std::vector<Range> gaps_;
  std::int64_t end_ = 0;
};

// The given order, each item as early as it can be behind the one before.
std::optional<Arrangement> in_given_order(const std::vector<Item>& items, const Sweep& sweep, std::int64_t capacity) {
  Arrangement starts;
  std::int64_t end = 0;
  for (const Item& item : items) {
    const auto start = sweep.start(item, end, capacity);
    if (!start || item.numel > capacity - *start)
      return std::nullopt;
    starts.push_back(*start);
    end = *start + item.numel;
  }
  return starts;
}

Order natural_order(std::size_t count) {
  Order order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  return order;
}

template <class Key>
Order descending(const std::vector<Item>& items, Key key) {
  Order order = natural_order(items.size());
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return key(items[a]) > key(items[b]); });
  return order;
}

// At every place the item that starts earliest, the largest of those; small ones are left for the gaps.
Order least_gap_order(const std::vector<Item>& items, const Sweep& sweep, std::int64_t segment, std::int64_t capacity) {
  Order rest = descending(items, [](const Item& item) { return item.numel; });
  Order order;
  std::int64_t end = 0;
  while (!rest.empty() && items[rest.front()].numel > segment / 64) {
    std::size_t best = 0;
    std::int64_t best_start = capacity;
    for (std::size_t i = 0; i < rest.size() && best_start > end; ++i)
      if (const auto start = sweep.start(items[rest[i]], end, capacity); start && *start < best_start) {
        best = i;
        best_start = *start;
      }
    order.push_back(rest[best]);
    end = best_start + items[rest[best]].numel;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(best));
    if (end >= capacity)
      break;
  }
  order.insert(order.end(), rest.begin(), rest.end());
  return order;
}

// All orders of up to 16 items; nothing means that none fits. Over subsets: of all orders of a subset only the one that
// ends first matters, since nothing starts earlier after a later end.
std::optional<Arrangement> arrange_exactly(const std::vector<Item>& items, int segments, std::int64_t segment,
                                           std::int64_t tensor_alignment) {
  const Sweep sweep(segment, tensor_alignment);
  const std::int64_t capacity = capacity_of(segments, segment);
  const std::size_t subsets = std::size_t{1} << items.size();
  constexpr std::int64_t impossible = -1;
  struct Best {
    std::int64_t end = impossible;
    std::int64_t start = 0;
    std::size_t last = 0;
  };
  std::vector<Best> best(subsets);
  best[0].end = 0;
  for (std::size_t subset = 0; subset < subsets; ++subset) {
    if (best[subset].end == impossible)
      continue;
    for (std::size_t i = 0; i < items.size(); ++i) {
      if ((subset >> i & 1) != 0)
        continue;
      const auto start = sweep.start(items[i], best[subset].end, capacity);
      if (!start || items[i].numel > capacity - *start)
        continue;
      Best& extended = best[subset | std::size_t{1} << i];
      if (extended.end == impossible || *start + items[i].numel < extended.end)
        extended = {*start + items[i].numel, *start, i};
    }
  }
  if (best[subsets - 1].end == impossible)
    return std::nullopt;
  Arrangement starts(items.size());
  for (std::size_t subset = subsets - 1; subset != 0; subset &= ~(std::size_t{1} << best[subset].last))
    starts[best[subset].last] = best[subset].start;
  return starts;
}

// The largest items in the best of all their orders; the others, largest first, are left for the gaps and the end.
std::optional<Order> largest_first_order(const std::vector<Item>& items, int segments, std::int64_t segment,
                                         std::int64_t tensor_alignment) {
  Order order = descending(items, [](const Item& item) { return item.numel; });
  std::vector<Item> largest;
  for (std::size_t i = 0; i < std::min(max_exact_items, order.size()); ++i)
    largest.push_back(items[order[i]]);
  const auto starts = arrange_exactly(largest, segments, segment, tensor_alignment);
  if (!starts)
    return std::nullopt;
  Order by_start = natural_order(largest.size());
  std::sort(by_start.begin(), by_start.end(),
            [&](std::size_t a, std::size_t b) { return (*starts)[a] < (*starts)[b]; });
  for (std::size_t& position : by_start)
    position = order[position];
  std::copy(by_start.begin(), by_start.end(), order.begin());
  return order;
}

} // namespace

std::optional<Arrangement> arrange(const std::vector<Item>& items, int segments, std::int64_t segment,
                                   std::int64_t tensor_alignment) {
  constexpr std::size_t max_quadratic = 300;
  const Sweep sweep(segment, tensor_alignment);
  const std::int64_t capacity = capacity_of(segments, segment);
  const auto first_fit = [&](const Order& order) { return FirstFit(items, sweep, capacity).run(order); };
  if (auto found = in_given_order(items, sweep, capacity))
    return found;
  if (auto found = first_fit(natural_order(items.size())))
    return found;
  if (auto found = first_fit(descending(items, [](const Item& item) { return std::pair(item.atom, item.numel); })))
    return found;
  if (auto found = first_fit(descending(items, [](const Item& item) { return item.numel; })))
    return found;
  if (items.size() <= max_exact_items)
    return arrange_exactly(items, segments, segment, tensor_alignment);
  if (items.size() <= max_quadratic)
    if (auto found = first_fit(least_gap_order(items, sweep, segment, capacity)))
      return found;
  if (const auto order = largest_first_order(items, segments, segment, tensor_alignment))
    return first_fit(*order);
  return std::nullopt;
}

} // namespace ostraka::layout::impl
