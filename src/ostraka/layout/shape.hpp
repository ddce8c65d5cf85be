// SPDX-License-Identifier: Apache-2.0
// Shapes in C order: dimension 0 is the slowest.
#pragma once

#include <ostraka/base/export.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ostraka::layout {

using Shape = std::vector<std::int64_t>;

/// Number of elements, 1 for a 0-D shape. Throws INVALID_ARGUMENT on a negative extent or a product beyond 64 bits.
OSTRAKA_API std::int64_t numel(std::span<const std::int64_t> shape);

/// Elements of one dim-0 row: the product of the other extents, 1 for 0-D and 1-D shapes.
OSTRAKA_API std::int64_t row_numel(std::span<const std::int64_t> shape);

/// Number of dim-0 rows: the first extent, 1 for a 0-D shape.
OSTRAKA_API std::int64_t rows(std::span<const std::int64_t> shape);

/// "(5, 3)"
OSTRAKA_API std::string to_string(std::span<const std::int64_t> shape);

} // namespace ostraka::layout
