// SPDX-License-Identifier: Apache-2.0
// Legal starts of tensors in a buffer that is cut every `segment` elements. The base of all planning.
#pragma once

#include <ostraka/layout/impl/item.hpp>

#include <cstdint>
#include <optional>

namespace ostraka::layout::impl {

/// Places for tensors under one segment length and one tensor alignment.
class Sweep {
public:
  Sweep(std::int64_t segment, std::int64_t tensor_alignment) : segment_(segment), alignment_(tensor_alignment) {}

  /// The earliest start >= `position` of `item` at which no cut splits an atom and that does not begin behind `limit`;
  /// nothing when there is none. Starting a tensor later never lets the next ones start earlier, so for a fixed order
  /// earliest starts are optimal.
  std::optional<std::int64_t> start(const Item& item, std::int64_t position, std::int64_t limit) const;

private:
  std::optional<std::int64_t> start_in_segment(const Item& item, std::int64_t begin, std::int64_t cut) const;
  std::optional<std::int64_t> aligned_with_cut(std::int64_t atom, std::int64_t begin, std::int64_t cut) const;

  std::int64_t segment_;
  std::int64_t alignment_;
};

} // namespace ostraka::layout::impl
