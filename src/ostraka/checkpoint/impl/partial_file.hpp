// SPDX-License-Identifier: Apache-2.0
// What is not complete yet stands beside its file as FILE.partial- and 16 digits.
#pragma once

#include <cstdint>
#include <string>

namespace ostraka::checkpoint::impl {

std::int64_t random_number();
std::string partial_path(const std::string& path, std::int64_t number);

/// Removes what writers of this path left when they were killed.
void remove_partial_files(const std::string& path);

} // namespace ostraka::checkpoint::impl
