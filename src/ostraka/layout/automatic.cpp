// SPDX-License-Identifier: Apache-2.0
// Choosing a policy by rule or at run time, and checking what a layout promises.
#include <ostraka/base/error.hpp>
#include <ostraka/layout/builders.hpp>
#include <ostraka/layout/impl/describe.hpp>
#include <ostraka/layout/impl/item.hpp>

#include <utility>

namespace ostraka::layout {
namespace {

constexpr double planned_tolerance = 0.03; // of the payload

GlobalLayout with_reason(GlobalLayout layout, std::string reason) {
  layout.set_reason(std::move(reason));
  return layout;
}

std::int64_t block_rows_of(const Atoms& atoms, std::size_t tensors) {
  expect(atoms.size() <= 1 || atoms.size() == tensors, Status::INVALID_ARGUMENT, "build: expected no atoms, one or ",
         tensors, ", found ", atoms.size());
  const Atom atom = atoms.empty() ? row_atom() : atoms.front();
  for (const Atom& other : atoms)
    expect(other == atom, Status::INVALID_ARGUMENT, "build: policy reference needs one atom for all tensors, found ",
           to_string(atom), " and ", to_string(other));
  expect(atom.kind == Atom::Kind::row || atom.kind == Atom::Kind::block, Status::INVALID_ARGUMENT,
         "build: policy reference cuts between rows or blocks of rows, found atoms of ", to_string(atom));
  return atom.kind == Atom::Kind::row ? 1 : atom.count;
}

GlobalLayout build_reference_of_atoms(std::vector<Shape> shapes, int segments, const Atoms& atoms) {
  const std::int64_t block_rows = block_rows_of(atoms, shapes.size());
  return build_reference(std::move(shapes), segments, block_rows);
}

void refuse_alignment(Policy policy, const Alignment& alignment) {
  expect(alignment.tensor == 1 && alignment.segment == 1, Status::INVALID_ARGUMENT, "build: policy ", name(policy),
         " takes no alignment, found ", alignment.tensor, " for tensors and ", alignment.segment, " for segments");
}

// The first cut strictly inside the tensor, among those of one run, that splits an atom; -1 when there is none.
std::int64_t splitting_cut(const Segments::Run& run, std::int64_t run_end, const Range& tensor, std::int64_t atom) {
  std::int64_t cut = run.begin;
  if (run.length > 0 && cut <= tensor.begin)
    cut += ((tensor.begin - cut) / run.length + 1) * run.length;
  for (int checked = 0; checked < 2 && cut > tensor.begin && cut < tensor.end && cut <= run_end; ++checked) {
    if ((cut - tensor.begin) % atom != 0)
      return cut;
    if (run.length == 0 || run.length % atom == 0)
      return -1; // the other cuts of this run are whole atoms further
    cut += run.length;
  }
  return -1;
}

} // namespace

GlobalLayout build_automatic(std::vector<Shape> shapes, int segments, const Alignment& alignment, const Atoms& atoms,
                             bool equal_segments) {
  const GlobalLayout planned = build_planned(shapes, segments, alignment, atoms);
  if (equal_segments)
    return with_reason(planned, "equal segments are required; " + planned.reason());
  if (static_cast<double>(planned.padding()) <= planned_tolerance * static_cast<double>(planned.payload()))
    return with_reason(planned, "the padding of planned is at most 3 % of the payload");
  return with_reason(build_ragged(std::move(shapes), segments, atoms),
                     "planned would pad more than 3 % of the payload");
}

GlobalLayout build(Policy policy, std::vector<Shape> shapes, int segments, const Alignment& alignment,
                   const Atoms& atoms) {
  switch (policy) {
  case Policy::reference:
    refuse_alignment(policy, alignment);
    return build_reference_of_atoms(std::move(shapes), segments, atoms);
  case Policy::planned:
    return build_planned(std::move(shapes), segments, alignment, atoms);
  case Policy::ragged:
    refuse_alignment(policy, alignment);
    return build_ragged(std::move(shapes), segments, atoms);
  case Policy::flat:
    expect(atoms.empty(), Status::INVALID_ARGUMENT, "build: policy flat cuts anywhere and takes no atoms, found ",
           atoms.size());
    return build_flat(std::move(shapes), segments, alignment);
  case Policy::tensor_atomic:
    fail(Status::INVALID_ARGUMENT, "build: policy tensor_atomic needs owners; use build_tensor_atomic");
  case Policy::automatic:
    return build_automatic(std::move(shapes), segments, alignment, atoms);
  }
  fail(Status::INVALID_ARGUMENT, "build: unknown layout policy ", static_cast<std::int32_t>(policy));
}

void validate_atoms(const GlobalLayout& layout, const Atoms& atoms) {
  const std::vector<impl::Item> items = impl::items_of("validate_atoms", layout.shapes(), layout.segments(), atoms);
  const auto runs = layout.cuts().runs();
  for (const impl::Item& item : items) {
    const Range tensor = layout.tensor_range(static_cast<int>(item.tensor));
    for (std::size_t r = 0; r < runs.size(); ++r) {
      const std::int64_t run_end = r + 1 < runs.size() ? runs[r + 1].begin : layout.size();
      if (run_end <= tensor.begin || runs[r].begin >= tensor.end)
        continue;
      const std::int64_t cut = splitting_cut(runs[r], run_end, tensor, item.atom);
      expect(cut < 0, Status::INVALID_ARGUMENT,
             "validate_atoms: ", impl::describe(item.tensor, layout.shapes()[item.tensor]), " at offset ", tensor.begin,
             ": expected cuts at multiples of its atom of ", item.atom, " elements, found segment ",
             cut >= 0 ? layout.cuts().find(cut) : 0, " to begin at element ", cut - tensor.begin, " of it");
    }
  }
}

} // namespace ostraka::layout
