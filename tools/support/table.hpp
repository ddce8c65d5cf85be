// SPDX-License-Identifier: Apache-2.0
// Rows of text in columns.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace ostraka::tool {

/// A cell of a table; its column is as wide as its widest cell.
using Row = std::vector<std::string>;

/// Columns of a terminal that UTF-8 text takes, one per character.
std::size_t width(std::string_view text);

/// A line per row, columns two spaces apart; those of `right` (numbers) end below each other. Rows may be short.
std::string table_text(const std::vector<Row>& rows, const std::vector<bool>& right = {});

} // namespace ostraka::tool
