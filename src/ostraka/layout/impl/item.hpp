// SPDX-License-Identifier: Apache-2.0
// What planners know of a tensor.
#pragma once

#include <ostraka/layout/builders.hpp>

#include <cstdint>
#include <string_view>
#include <vector>

namespace ostraka::layout::impl {

struct Item {
  std::size_t tensor;
  std::int64_t numel;
  std::int64_t atom;
};

/// The atom of tensor `index` of `count`; throws unless there are none, one or `count` of them.
Atom atom_of(std::string_view operation, const Atoms& atoms, std::size_t index, std::size_t count);

/// The tensors that hold elements, in their order, and a check of segments >= 1.
std::vector<Item> items_of(std::string_view operation, const std::vector<Shape>& shapes, int segments,
                           const Atoms& atoms);

/// Throws unless both alignments are >= 1.
void check_alignment(std::string_view operation, const Alignment& alignment);

} // namespace ostraka::layout::impl
