// SPDX-License-Identifier: Apache-2.0
// Writes the frame of a checkpoint file, all but the bytes of its tensors, with serial HDF5; read_contents() reads it.
#pragma once

#include <ostraka/checkpoint/contents.hpp>

#include <string>
#include <string_view>

namespace ostraka::checkpoint::impl {

inline constexpr std::int64_t format_version = 1;
inline constexpr const char* format_name = "ostraka checkpoint";

/// The name of an HDF5 link: '%' and '/' become %25 and %2F, a lone "." %2E. Throws INVALID_ARGUMENT for an empty name
/// and for one with a zero byte.
std::string escape(std::string_view name);
/// The reverse; other percent signs stay.
std::string unescape(std::string_view link);

/// Writes the frame into the file `path`, which is made or overwritten, with room for all tensors, and fills in their
/// offsets. format_version and library_version of `contents` are ignored: they are this library's. Local. INPUT_OUTPUT
/// naming the file; INVALID_ARGUMENT for two tensors of one name; NOT_SUPPORTED in a build without HDF5.
void write_frame(const std::string& path, Contents& contents);

} // namespace ostraka::checkpoint::impl
