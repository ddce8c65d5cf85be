// SPDX-License-Identifier: Apache-2.0
// A network's shapes by unit.
#pragma once

#include "json_file.hpp"
#include <ostraka/plan/request.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace ostraka::tool {

struct Model {
  std::string file;
  std::string name;
  std::vector<plan::Unit> units;
  std::vector<char> has_times; ///< [unit] whether the file says its seconds
  std::int64_t parameters = 0; ///< elements of all modules
  std::int64_t modules = 0;
};

/// Elements of the parameters of one module; with `matrices`, of those with two dimensions or more.
std::int64_t elements_of(const plan::Unit& unit, bool matrices = false);

/// {"model": NAME, "units": [{"unit": NAME, "count": N, "tensors": [[NAME, [EXTENTS ...]], ...], ...}, ...]};
/// docs/guide has all members. `storage`: of units without "dtype". Throws INVALID_ARGUMENT that names file and place.
Model read_model(const std::string& path, DType storage, const Warn& warn);

/// "f64", "f32" or "bf16"; throws INVALID_ARGUMENT that begins with `what`.
DType parse_dtype(const std::string& text, const std::string& what);

} // namespace ostraka::tool
