// SPDX-License-Identifier: Apache-2.0
// What the tool does; each command prints to standard output and returns the exit status.
#pragma once

#include "compare.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::tool {

/// Exit statuses: 1 where files differ or are damaged, 2 where a command cannot be carried out.
inline constexpr int success = 0, difference_found = 1, trouble = 2;

struct ListOptions {
  std::string file;
  std::vector<std::string> only; // patterns of names; none: all
  bool json = false;
};
int list(const ListOptions& options);

struct VerifyOptions {
  std::string file;
  std::vector<std::string> only;
};
int verify(const VerifyOptions& options);

struct DiffOptions {
  std::string a, b;
  std::vector<std::string> only;
  Tolerance tolerance;
};
int diff(const DiffOptions& options);

struct ExportOptions {
  std::string file, safetensors;
  std::vector<std::string> only;
  std::vector<std::string> metadata; // KEY=VALUE
  bool state = false, force = false;
};
int export_safetensors(const ExportOptions& options);

struct ImportOptions {
  std::string safetensors, file;
  std::vector<std::string> only;
  std::optional<std::int64_t> steps;
  bool force = false;
};
int import_safetensors(const ImportOptions& options);

} // namespace ostraka::tool
