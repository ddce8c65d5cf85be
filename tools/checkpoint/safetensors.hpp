// SPDX-License-Identifier: Apache-2.0
// The header of a safetensors file: a 64-bit length, JSON with types, shapes and places, then the data without gaps.
#pragma once

#include "file.hpp"
#include <ostraka/base/dtype.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace ostraka::tool {

struct Safetensor {
  std::string name;
  DType dtype = DType::f64;
  std::vector<std::int64_t> shape; // C order
  std::int64_t begin = 0, end = 0; // bytes from the start of the data
};

struct SafetensorsHeader {
  std::map<std::string, std::string> metadata;
  std::vector<Safetensor> tensors; // in the order of their data
  std::int64_t data = 0;           // where it starts in the file, in bytes
};

/// Reads and checks the header of a file; throws Damage, or NOT_SUPPORTED for a type that Ostraka lacks, naming the
/// tensor.
SafetensorsHeader read_safetensors_header(const File& file);

/// Gives the tensors their order and places: large elements first, so that each is aligned; then by name.
void place_safetensors(SafetensorsHeader& header);

/// The bytes before the data; sets header.data. Throws INVALID_ARGUMENT when a name is not UTF-8.
std::string safetensors_prefix(SafetensorsHeader& header);

/// "F64", "BF16", ...
const char* safetensors_type(DType dtype);

} // namespace ostraka::tool
