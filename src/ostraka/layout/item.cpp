// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/impl/describe.hpp>
#include <ostraka/layout/impl/item.hpp>

namespace ostraka::layout::impl {

Atom atom_of(std::string_view operation, const Atoms& atoms, std::size_t index, std::size_t count) {
  expect(atoms.size() <= 1 || atoms.size() == count, Status::INVALID_ARGUMENT, operation,
         ": expected no atoms, one or ", count, ", found ", atoms.size());
  return atoms.empty() ? element_atom() : atoms.size() == 1 ? atoms.front() : atoms[index];
}

std::vector<Item> items_of(std::string_view operation, const std::vector<Shape>& shapes, int segments,
                           const Atoms& atoms) {
  expect(segments >= 1, Status::INVALID_ARGUMENT, operation, ": expected segments >= 1, found ", segments);
  std::vector<Item> items;
  std::int64_t total = 0;
  items.reserve(shapes.size());
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Atom atom = atom_of(operation, atoms, i, shapes.size());
    naming(operation, i, shapes[i], [&] {
      const std::int64_t atom_size = atom_numel(atom, shapes[i]);
      if (const std::int64_t count = numel(shapes[i]); count > 0)
        items.push_back({i, count, atom_size});
      total = add(total, numel(shapes[i]), "elements of all tensors so far");
    });
  }
  return items;
}

void check_alignment(std::string_view operation, const Alignment& alignment) {
  expect(alignment.tensor >= 1, Status::INVALID_ARGUMENT, operation, ": expected a tensor alignment >= 1, found ",
         alignment.tensor);
  expect(alignment.segment >= 1, Status::INVALID_ARGUMENT, operation, ": expected a segment alignment >= 1, found ",
         alignment.segment);
}

} // namespace ostraka::layout::impl
