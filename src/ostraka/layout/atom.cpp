// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/checked.hpp>
#include <ostraka/layout/atom.hpp>
#include <ostraka/layout/shape.hpp>

#include <algorithm>

namespace ostraka::layout {
namespace {

// Dimension 0 can always be cut; whole tensors are an atom of their own.
std::int64_t last_dims_numel(std::int64_t dims, std::span<const std::int64_t> shape) {
  expect(dims >= 0, Status::INVALID_ARGUMENT, "atom: expected a number of last dimensions >= 0, found ", dims);
  const auto inner = shape.empty() ? shape : shape.subspan(1);
  return numel(inner.last(static_cast<std::size_t>(std::min<std::int64_t>(dims, std::ssize(inner)))));
}

std::int64_t block_numel(std::int64_t block_rows, std::span<const std::int64_t> shape) {
  expect(block_rows >= 1, Status::INVALID_ARGUMENT, "atom: expected a block of at least 1 row, found ", block_rows);
  return multiply(std::min(block_rows, rows(shape)), row_numel(shape), "atom: block");
}

std::int64_t numel_unless_empty(const Atom& atom, std::span<const std::int64_t> shape) {
  switch (atom.kind) {
  case Atom::Kind::element:
    return 1;
  case Atom::Kind::last_dims:
    return last_dims_numel(atom.count, shape);
  case Atom::Kind::row:
    return row_numel(shape);
  case Atom::Kind::block:
    return block_numel(atom.count, shape);
  case Atom::Kind::tensor:
    return numel(shape);
  }
  fail(Status::INVALID_ARGUMENT, "atom: expected a kind from 0 (element) to 4 (tensor), found ",
       static_cast<std::int32_t>(atom.kind));
}

} // namespace

std::int64_t atom_numel(const Atom& atom, std::span<const std::int64_t> shape) {
  const std::int64_t elements = numel_unless_empty(atom, shape);
  const bool is_empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  return is_empty ? 1 : elements;
}

std::string to_string(const Atom& atom) {
  switch (atom.kind) {
  case Atom::Kind::element:
    return "element";
  case Atom::Kind::last_dims:
    return "row of the last " + std::to_string(atom.count) + " dimensions";
  case Atom::Kind::row:
    return "dim-0 row";
  case Atom::Kind::block:
    return "block of " + std::to_string(atom.count) + " rows";
  case Atom::Kind::tensor:
    return "tensor";
  }
  return "unknown atom " + std::to_string(static_cast<std::int32_t>(atom.kind));
}

} // namespace ostraka::layout
