// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/impl/sweep.hpp>

#include <numeric>
#include <utility>

namespace ostraka::layout::impl {
namespace {

// The inverse of `value` modulo `modulus`; both are coprime.
std::int64_t inverse(std::int64_t value, std::int64_t modulus) {
  std::int64_t previous = 0, current = 1, a = modulus, b = value % modulus;
  while (b != 0) {
    const std::int64_t quotient = a / b;
    a = std::exchange(b, a - quotient * b);
    previous = std::exchange(current, previous - quotient * current);
  }
  return ((previous % modulus) + modulus) % modulus;
}

} // namespace

// The least start in [begin, cut] that is a multiple of the alignment and a whole number of atoms before `cut`.
std::optional<std::int64_t> Sweep::aligned_with_cut(std::int64_t atom, std::int64_t begin, std::int64_t cut) const {
  std::int64_t atoms = (cut - begin) / atom; // before the cut
  if (alignment_ > 1) {
    const std::int64_t common = std::gcd(atom, alignment_);
    if (cut % common != 0)
      return std::nullopt;
    const std::int64_t modulus = alignment_ / common; // atoms * (atom / common) = cut / common (mod modulus)
    const __int128 product =
        static_cast<__int128>(cut / common % modulus) * (modulus > 1 ? inverse(atom / common, modulus) : 0);
    const auto wanted = static_cast<std::int64_t>(product % modulus);
    const std::int64_t excess = ((atoms - wanted) % modulus + modulus) % modulus;
    atoms -= excess;
    if (atoms < 0)
      return std::nullopt;
  }
  return cut - atoms * atom;
}

// A start in [begin, cut] of a tensor that crosses `cut`, or starts at it.
std::optional<std::int64_t> Sweep::start_in_segment(const Item& item, std::int64_t begin, std::int64_t cut) const {
  const auto start = aligned_with_cut(item.atom, begin, cut);
  if (!start)
    return std::nullopt;
  const bool crosses_once_at_most = item.numel <= cut - *start + segment_;
  if (crosses_once_at_most || segment_ % item.atom == 0)
    return start;
  return std::nullopt; // the least start reaches least far behind the cut
}

std::optional<std::int64_t> Sweep::start(const Item& item, std::int64_t position, std::int64_t limit) const {
  constexpr const char* what = "planned layout: offset";
  // Places repeat when the cuts have the same distance from aligned starts again.
  const std::int64_t period = alignment_ / std::gcd(alignment_, segment_);
  std::int64_t begin = round_up(position, alignment_, what);
  for (std::int64_t tries = 0; tries <= period + 1 && begin < limit; ++tries) {
    const std::int64_t cut = multiply(begin / segment_ + 1, segment_, what);
    if (item.numel <= cut - begin)
      return begin;
    if (const auto start = start_in_segment(item, begin, cut); start && *start < limit)
      return start;
    begin = round_up(cut, alignment_, what);
  }
  return std::nullopt;
}

} // namespace ostraka::layout::impl
