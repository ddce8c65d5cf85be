// SPDX-License-Identifier: Apache-2.0
// Reads this rank's elements of tensors from a file, block by block: checked and converted while in the cache.
#pragma once

#include <ostraka/checkpoint/impl/file.hpp>
#include <ostraka/checkpoint/impl/load_plan.hpp>
#include <ostraka/checkpoint/impl/sums.hpp>

#include <span>
#include <string>
#include <vector>

namespace ostraka::checkpoint::impl {

/// Reads all matches; returns the checksums of what this rank checks, with the number of the match as tensor; without
/// `verify` they are 0. Local. Transient memory: 256 KiB.
std::vector<PartSum> read_tensors(const std::string& path, const Catalog& catalog, std::span<const Tensor> tensors,
                                  std::span<const Match> matches, bool verify);

} // namespace ostraka::checkpoint::impl
