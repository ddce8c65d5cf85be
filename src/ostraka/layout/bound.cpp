// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/impl/arrange.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace ostraka::layout::impl {
namespace {

constexpr std::int64_t unreachable = std::numeric_limits<std::int64_t>::max();
constexpr const char* what = "planned layout: segment";

// Whether `item` can be placed under this segment at all: whole, across one cut, or across several with the segment a
// multiple of the atom.
bool allows(const Item& item, std::int64_t segment) {
  return segment % item.atom == 0 || item.numel - segment <= segment / item.atom * item.atom;
}

// The least segment >= `at_least` under which `item` crosses one cut at most.
std::int64_t least_without_cover(const Item& item, std::int64_t at_least) {
  std::int64_t atoms = std::max(at_least / item.atom, (item.numel - item.atom) / (2 * item.atom));
  while (true) {
    const std::int64_t segment = std::max({at_least, atoms * item.atom, item.numel - atoms * item.atom});
    if (segment / item.atom <= atoms)
      return segment;
    ++atoms;
  }
}

std::int64_t common_multiple(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  return __builtin_mul_overflow(a, b / std::gcd(a, b), &result) ? unreachable : result;
}

} // namespace

std::int64_t next_segment(const std::vector<Item>& items, std::int64_t at_least, std::int64_t multiple) {
  std::int64_t segment = at_least;
  for (const Item& item : items)
    segment = std::max(segment, item.atom);
  segment = round_up(segment, multiple, what);
  while (true) {
    std::int64_t step = multiple, without_cover = unreachable;
    for (const Item& item : items)
      if (!allows(item, segment)) {
        step = step == unreachable ? step : common_multiple(step, item.atom);
        without_cover = std::min(without_cover, round_up(least_without_cover(item, segment), multiple, what));
      }
    if (segment % step == 0)
      return segment;
    segment = step == unreachable ? without_cover : std::min(round_up(segment, step, what), without_cover);
  }
}

std::int64_t least_segment(const std::vector<Item>& items, int segments, std::int64_t multiple) {
  std::int64_t total = 0;
  for (const Item& item : items)
    total = add(total, item.numel, "planned layout: payload");
  return next_segment(items, total / segments + (total % segments != 0 ? 1 : 0), multiple);
}

} // namespace ostraka::layout::impl
