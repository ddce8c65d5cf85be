// SPDX-License-Identifier: Apache-2.0
// The ragged builder: tensors packed in their order, cut so that the largest segment is the least possible.
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/layout/impl/item.hpp>

#include <algorithm>
#include <utility>

namespace ostraka::layout {
namespace {

using impl::Item;

// Fills segments of at most `largest` elements from the left, each as full as atoms allow: no other cuts need fewer
// segments. `largest` is at least every atom. Segments beyond `ranks` are only counted: there may be more of them than
// 32 bits can number.
class Filling {
public:
  Filling(const std::vector<Item>& items, std::int64_t largest, int ranks) : largest_(largest), ranks_(ranks) {
    for (const Item& item : items)
      append(item);
    close(used_);
  }

  bool fits() const { return count_ <= ranks_; }
  Segments segments() && {
    segments_.append(ranks_ - count_, 0);
    return std::move(segments_);
  }

private:
  void append(const Item& item) {
    if (item.numel <= largest_ - used_) {
      used_ += item.numel;
      return;
    }
    const std::int64_t head = (largest_ - used_) / item.atom * item.atom;
    close(used_ + head);
    const std::int64_t whole = largest_ / item.atom * item.atom; // of the segments inside this tensor
    const std::int64_t rest = item.numel - head;
    const std::int64_t inside = rest > largest_ ? (rest - largest_ + whole - 1) / whole : 0;
    add_segments(inside, whole);
    used_ = rest - inside * whole;
  }

  void close(std::int64_t length) {
    if (length > 0)
      add_segments(1, length);
    used_ = 0;
  }

  void add_segments(std::int64_t count, std::int64_t length) {
    count_ += count;
    if (fits())
      segments_.append(count, length);
  }

  std::int64_t largest_;
  int ranks_;
  std::int64_t used_ = 0; // of the open segment
  std::int64_t count_ = 0;
  Segments segments_;
};

std::int64_t least_largest(const std::vector<Item>& items, int segments, std::int64_t total) {
  std::int64_t low = total / segments + (total % segments != 0 ? 1 : 0), high = std::max<std::int64_t>(total, 1);
  for (const Item& item : items)
    low = std::max(low, item.atom);
  low = std::max<std::int64_t>(low, 1);
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (Filling(items, middle, segments).fits())
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

} // namespace

GlobalLayout build_ragged(std::vector<Shape> shapes, int segments, const Atoms& atoms) {
  const std::vector<Item> items = impl::items_of("build_ragged", shapes, segments, atoms);
  std::vector<std::int64_t> offsets;
  std::int64_t total = 0;
  for (const Shape& shape : shapes) {
    offsets.push_back(total);
    total = add(total, numel(shape), "build_ragged: size");
  }
  const std::int64_t largest = least_largest(items, segments, total);
  return {Policy::ragged, std::move(shapes), std::move(offsets), Filling(items, largest, segments).segments(),
          "the largest segment is the least possible in this order"};
}

} // namespace ostraka::layout
