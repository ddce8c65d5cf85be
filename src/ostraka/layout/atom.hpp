// SPDX-License-Identifier: Apache-2.0
// What no cut may split: the atom of a tensor. Atoms count from the tensor's first element; the last one may be
// shorter.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstdint>
#include <span>
#include <string>

namespace ostraka::layout {

struct Atom {
  /// Numbers are part of the C ABI.
  enum class Kind : std::int32_t {
    element = 0,   ///< cuts may fall anywhere
    last_dims = 1, ///< a row of the last `count` dimensions, at most of all but the first: a vector's rows are elements
    row = 2,       ///< a dim-0 row
    block = 3,     ///< `count` consecutive dim-0 rows
    tensor = 4,    ///< the whole tensor
  };

  Kind kind = Kind::element;
  std::int64_t count = 1;

  bool operator==(const Atom&) const = default;
};

constexpr Atom element_atom() { return {}; }
constexpr Atom last_dims_atom(std::int64_t dims) { return {Atom::Kind::last_dims, dims}; }
constexpr Atom row_atom() { return {Atom::Kind::row, 1}; }
constexpr Atom block_atom(std::int64_t rows) { return {Atom::Kind::block, rows}; }
constexpr Atom tensor_atom() { return {Atom::Kind::tensor, 1}; }

/// Elements of one atom of a tensor of `shape`, at least 1 and at most the tensor (1 for an empty one). Throws
/// INVALID_ARGUMENT for an unknown kind, a negative number of dimensions, a block of no rows.
OSTRAKA_API std::int64_t atom_numel(const Atom& atom, std::span<const std::int64_t> shape);

/// "element", "row of the last 2 dimensions", "dim-0 row", "block of 32 rows", "tensor"
OSTRAKA_API std::string to_string(const Atom& atom);

} // namespace ostraka::layout
