// SPDX-License-Identifier: Apache-2.0
// How tensors of a checkpoint are called in a safetensors file.
#pragma once

#include <string>
#include <utility>

namespace ostraka::tool {

/// Entries of __metadata__ that export writes and import understands.
inline constexpr const char* steps_key = "ostraka_steps";
inline constexpr const char* format_version_key = "ostraka_format_version";
inline constexpr const char* library_version_key = "ostraka_library_version";
inline constexpr const char* tied_names_key = "ostraka_tied_names"; // JSON list of those tied to others, [] for none

/// A weight by its name; optimizer state as "ostraka.state/STATE/NAME". Throws INVALID_ARGUMENT for a weight that has
/// such a name.
std::string key_of(const std::string& group, const std::string& name);

/// The group and the name of a key. Throws INVALID_ARGUMENT for "ostraka.state/" that no name follows.
std::pair<std::string, std::string> group_and_name_of(const std::string& key);

} // namespace ostraka::tool
