// SPDX-License-Identifier: Apache-2.0
// What a checkpoint file holds and where, for any program: nothing here communicates or needs MPI to be running.
// The format is described in this room's README.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/layout/shape.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::checkpoint {

/// The groups of a file; those of optimizer state are "state/exp_avg", ...
inline constexpr const char* main_weight_group = "main_weight";
inline constexpr const char* state_group = "state";
inline constexpr const char* field_group = "field"; ///< arrays of the user, sharded over the ranks that saved
inline constexpr const char* user_group = "user";   ///< values of the user, equal on all ranks

struct Tensor {
  std::string group;
  std::string name; ///< "module.parameter"
  DType dtype = DType::f64;
  layout::Shape shape;                  ///< global, C order: the last dimension is contiguous
  bool is_text = false;                 ///< UTF-8: dtype u8, shape {bytes}
  std::vector<std::string> other_names; ///< of the same tensor, where parameters are tied
  std::uint32_t crc32c = 0;             ///< of the bytes in global order
  std::int64_t offset = 0;              ///< of the first byte in the file

  std::int64_t bytes() const { return layout::numel(shape) * size_of(dtype); }
  /// "main_weight/module.parameter", for messages
  std::string path() const { return group + "/" + name; }

  bool operator==(const Tensor&) const = default;
};

struct Contents {
  std::int64_t format_version = 0;
  std::string library_version;
  std::string layout_report;         ///< a line per group of parameters
  std::optional<std::int64_t> steps; ///< of the optimizer
  std::vector<Tensor> tensors;       ///< in the order in which they were saved, group by group
};

/// Reads the table of a file, not its tensors. Local. INPUT_OUTPUT for a file that cannot be read, is no HDF5 file, is
/// truncated or damaged; INVALID_ARGUMENT for one that is no checkpoint or has a later format; NOT_SUPPORTED in a build
/// without HDF5. All name the file.
OSTRAKA_API Contents read_contents(const std::string& path);

} // namespace ostraka::checkpoint
