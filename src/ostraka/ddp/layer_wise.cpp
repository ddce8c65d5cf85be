// SPDX-License-Identifier: Apache-2.0
// Every parameter whole in one shard, shards balanced by what an optimizer on whole matrices costs. Spec 5.1.
#include <ostraka/base/checked.hpp>
#include <ostraka/ddp/impl/arrange.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

namespace ostraka::ddp::impl {
namespace {

using Counts = std::vector<std::int64_t>;

std::size_t smallest(const Counts& cursors) {
  return static_cast<std::size_t>(std::min_element(cursors.begin(), cursors.end()) - cursors.begin());
}

// Where `item` ends behind `cursor`.
std::int64_t end_behind(std::int64_t cursor, const Item& item) {
  return add(round_up(cursor, start_multiple, item.what), item.numel, item.what);
}

class LayerWise {
public:
  LayerWise(BufferLayout& buffer, const std::vector<Item>& items, const Rules& rules)
      : buffer_(buffer), items_(items), rules_(rules),
        shard_multiple_(std::lcm(start_multiple, rules.end_multiple / rules.shards)), costs_(count(), 0),
        estimated_(count(), 0) {
    buffer_.ranges.resize(items.size());
  }

  void place(int position) {
    const Item& item = items_[static_cast<std::size_t>(position)];
    if (item.shared_embedding) {
      close();
      emit_embedding(position);
      return;
    }
    if (is_full() && !fits_into_padding(item))
      close();
    std::int64_t& cursor = estimated_[smallest(estimated_)];
    cursor = end_behind(cursor, item);
    chunk_.push_back(position);
    numel_ = add(numel_, item.numel, item.what);
    largest_ = std::max(largest_, item.numel);
  }

  void close() {
    if (chunk_.empty())
      return;
    emit();
    chunk_.clear();
    numel_ = largest_ = 0;
    std::fill(estimated_.begin(), estimated_.end(), 0);
  }

private:
  std::size_t count() const { return static_cast<std::size_t>(rules_.shards); }

  // The shard of the largest parameter decides the size of all: below nine tenths of that a bucket is mostly padding.
  bool is_full() const {
    const __int128 least = static_cast<__int128>(rules_.shards) * largest_ * 9 / 10;
    return !chunk_.empty() && numel_ >= rules_.bucket_size && numel_ >= least;
  }

  // By an estimate: shards are filled in the order of the walk, always the shortest one.
  bool fits_into_padding(const Item& item) const {
    const std::int64_t size = shard_size(*std::max_element(estimated_.begin(), estimated_.end()), item);
    return end_behind(estimated_[smallest(estimated_)], item) <= size;
  }

  std::int64_t shard_size(std::int64_t cursor, const Item& item) const {
    return round_up(cursor, shard_multiple_, item.what);
  }

  void emit() {
    std::vector<int> order = chunk_;
    const auto cost = [&](int position) { return items_[static_cast<std::size_t>(position)].cost; };
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return cost(a) > cost(b); });
    Counts cursors(count(), 0);
    std::vector<std::size_t> shards;
    for (const int position : order)
      shards.push_back(give(position, cursors));
    const Item& costliest = items_[static_cast<std::size_t>(order.front())];
    const std::int64_t size = shard_size(*std::max_element(cursors.begin(), cursors.end()), costliest);
    const std::int64_t begin = push_bucket(chunk_, size, numel_, costliest);
    for (std::size_t i = 0; i < order.size(); ++i)
      move(order[i], begin + static_cast<std::int64_t>(shards[i]) * size);
  }

  void emit_embedding(int position) {
    const Item& item = items_[static_cast<std::size_t>(position)];
    buffer_.ranges[static_cast<std::size_t>(position)] = {0, item.numel};
    move(position, push_bucket({position}, shard_size(item.numel, item), item.numel, item));
  }

  // The parameter's range gets its place in the shard.
  std::size_t give(int position, Counts& cursors) {
    const Item& item = items_[static_cast<std::size_t>(position)];
    const std::size_t shard = choose(item, cursors);
    cursors[shard] = end_behind(cursors[shard], item);
    costs_[shard] += item.cost;
    buffer_.ranges[static_cast<std::size_t>(position)] = {cursors[shard] - item.numel, cursors[shard]};
    return shard;
  }

  // The cheapest shard of those that stay within 1.3 even shares of the elements, else the shortest one.
  std::size_t choose(const Item& item, const Counts& cursors) const {
    std::size_t best = count();
    for (std::size_t shard = 0; shard < count(); ++shard)
      if (stays_even(end_behind(cursors[shard], item)) && (best == count() || costs_[shard] < costs_[best]))
        best = shard;
    return best < count() ? best : smallest(cursors);
  }

  bool stays_even(std::int64_t end) const {
    return static_cast<__int128>(10) * rules_.shards * end <= static_cast<__int128>(13) * numel_;
  }

  // With shards of `size`; returns its begin. `blamed` is named where that leaves 64 bits.
  std::int64_t push_bucket(std::vector<int> positions, std::int64_t size, std::int64_t numel, const Item& blamed) {
    const std::int64_t begin = buffer_.size();
    const std::int64_t end = add(begin, multiply(size, rules_.shards, blamed.what), blamed.what);
    buffer_.buckets.push_back({{begin, end}, numel, std::move(positions)});
    return begin;
  }

  void move(int position, std::int64_t distance) {
    layout::Range& range = buffer_.ranges[static_cast<std::size_t>(position)];
    range = {range.begin + distance, range.end + distance};
  }

  BufferLayout& buffer_;
  const std::vector<Item>& items_;
  const Rules& rules_;
  std::int64_t shard_multiple_;
  std::vector<__int128> costs_; ///< of each shard, over all buckets
  std::vector<int> chunk_;      ///< positions that are in no bucket yet
  std::int64_t numel_ = 0;      ///< of the chunk
  std::int64_t largest_ = 0;    ///< parameter of the chunk
  Counts estimated_;            ///< cursors of the shards that the chunk would fill
};

} // namespace

void arrange_layer_wise(BufferLayout& buffer, const std::vector<Item>& items, const Rules& rules) {
  LayerWise arrangement(buffer, items, rules);
  for (std::size_t i = 0; i < items.size(); ++i)
    arrangement.place(static_cast<int>(i));
  arrangement.close();
}

} // namespace ostraka::ddp::impl
