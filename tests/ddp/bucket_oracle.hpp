// SPDX-License-Identifier: Apache-2.0
// A second reading of spec 5.1, as literal as can be: every bucket is found from the list of all parameters anew.
// Shares no code with the library.
#pragma once

#include "ddp/buckets.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ostraka::ddp::test {

struct OracleParameter {
  std::int64_t numel;
  __int128 cost;
  bool shared;
};
using OracleParameters = std::vector<OracleParameter>; ///< in the order of the walk

struct OracleRules {
  std::int64_t bucket_size;
  std::int64_t ranks;
  std::int64_t divisor; ///< D of spec 5.1
};

struct OracleLayout {
  Ranges ranges;
  Ranges buckets;
  Counts unpadded;
  Counts counts;
};

inline std::int64_t up(std::int64_t value, std::int64_t multiple) {
  while (value % multiple != 0)
    ++value;
  return value;
}

/// "append; after each parameter, if (end - bucket start) >= bucket_size close the bucket"
inline OracleLayout oracle_unsharded(const OracleParameters& all, std::int64_t bucket_size) {
  OracleLayout result;
  for (std::size_t i = 0; i < all.size();) {
    const std::int64_t begin = result.buckets.empty() ? 0 : result.buckets.back().end;
    std::int64_t end = begin, count = 0;
    do {
      result.ranges.push_back({end, end + all[i].numel});
      end += all[i].numel;
      ++count, ++i;
    } while (i < all.size() && end - begin < bucket_size);
    result.buckets.push_back({begin, end});
    result.unpadded.push_back(end - begin);
    result.counts.push_back(count);
  }
  return result;
}

/// Starts rounded up to 64, ends to D, a shared embedding alone; what an embedding closes counts its rounded start.
inline OracleLayout oracle_sharded(const OracleParameters& all, const OracleRules& rules) {
  OracleLayout result;
  for (std::size_t i = 0; i < all.size();) {
    const std::int64_t begin = result.buckets.empty() ? 0 : result.buckets.back().end;
    std::int64_t end = begin, count = 0;
    bool is_closed = false, by_embedding = false;
    while (!is_closed && i < all.size()) {
      result.ranges.push_back({up(end, 64), up(end, 64) + all[i].numel});
      end = result.ranges.back().end;
      by_embedding = !all[i].shared && end - begin < rules.bucket_size && i + 1 < all.size() && all[i + 1].shared;
      is_closed = all[i].shared || end - begin >= rules.bucket_size || by_embedding;
      ++count, ++i;
    }
    result.unpadded.push_back((by_embedding ? up(end, 64) : end) - begin);
    result.buckets.push_back({begin, up(end, rules.divisor)});
    result.counts.push_back(count);
  }
  return result;
}

/// Whether the parameters [first, last) are enough for a bucket, and `next` would not fit into its padding.
inline bool oracle_closes(const OracleParameters& all, std::size_t first, std::size_t last, const OracleRules& rules,
                          std::int64_t shard_divisor) {
  std::int64_t numel = 0, largest = 0;
  Counts cursors(static_cast<std::size_t>(rules.ranks), 0);
  for (std::size_t i = first; i < last; ++i) {
    numel += all[i].numel;
    largest = std::max(largest, all[i].numel);
    auto shortest = std::min_element(cursors.begin(), cursors.end());
    *shortest = up(*shortest, 64) + all[i].numel;
  }
  if (numel < rules.bucket_size || numel < 9 * rules.ranks * largest / 10)
    return false;
  const std::int64_t size = up(*std::max_element(cursors.begin(), cursors.end()), shard_divisor);
  return up(*std::min_element(cursors.begin(), cursors.end()), 64) + all[last].numel > size;
}

/// Adds the bucket of [first, last); `costs` are those of the shards so far.
inline void oracle_emit(const OracleParameters& all, std::size_t first, std::size_t last, const OracleRules& rules,
                        std::int64_t shard_divisor, std::vector<__int128>& costs, OracleLayout& result) {
  std::int64_t total = 0;
  std::vector<std::size_t> order;
  for (std::size_t i = first; i < last; ++i) {
    total += all[i].numel;
    auto place = order.begin(); // insertion behind all that cost as much
    while (place != order.end() && all[*place].cost >= all[i].cost)
      ++place;
    order.insert(place, i);
  }
  Counts cursors(costs.size(), 0);
  std::vector<std::size_t> shard(all.size());
  for (const std::size_t i : order) {
    std::vector<std::size_t> allowed;
    for (std::size_t s = 0; s < costs.size(); ++s)
      if (10 * rules.ranks * (up(cursors[s], 64) + all[i].numel) <= 13 * total)
        allowed.push_back(s);
    std::size_t best = 0;
    if (allowed.empty()) {
      for (std::size_t s = 1; s < costs.size(); ++s)
        best = cursors[s] < cursors[best] ? s : best;
    } else {
      best = allowed[0];
      for (const std::size_t s : allowed)
        best = costs[s] < costs[best] ? s : best;
    }
    shard[i] = best;
    costs[best] += all[i].cost;
    result.ranges[i].begin = up(cursors[best], 64); // in the shard, for now
    cursors[best] = up(cursors[best], 64) + all[i].numel;
  }
  const std::int64_t size = up(*std::max_element(cursors.begin(), cursors.end()), shard_divisor);
  const std::int64_t begin = result.buckets.empty() ? 0 : result.buckets.back().end;
  for (const std::size_t i : order) {
    result.ranges[i].begin += begin + static_cast<std::int64_t>(shard[i]) * size;
    result.ranges[i].end = result.ranges[i].begin + all[i].numel;
  }
  result.buckets.push_back({begin, begin + rules.ranks * size});
  result.unpadded.push_back(total);
  result.counts.push_back(static_cast<std::int64_t>(last - first));
}

inline OracleLayout oracle_layer_wise(const OracleParameters& all, const OracleRules& rules) {
  std::int64_t shard_divisor = 64; // the least multiple of 64 whose shards together are a multiple of D
  while (rules.ranks * shard_divisor % rules.divisor != 0)
    shard_divisor += 64;
  OracleLayout result;
  result.ranges.resize(all.size());
  std::vector<__int128> costs(static_cast<std::size_t>(rules.ranks), 0);
  for (std::size_t first = 0; first < all.size();) {
    std::size_t last = first + 1;
    if (all[first].shared) {
      const std::int64_t begin = result.buckets.empty() ? 0 : result.buckets.back().end;
      result.ranges[first] = {begin, begin + all[first].numel};
      result.buckets.push_back({begin, begin + rules.ranks * up(all[first].numel, shard_divisor)});
      result.unpadded.push_back(all[first].numel);
      result.counts.push_back(1);
    } else {
      while (last < all.size() && !all[last].shared && !oracle_closes(all, first, last, rules, shard_divisor))
        ++last;
      oracle_emit(all, first, last, rules, shard_divisor, costs, result);
    }
    first = last;
  }
  return result;
}

} // namespace ostraka::ddp::test
