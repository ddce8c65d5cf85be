// SPDX-License-Identifier: Apache-2.0
// Checksums of whole tensors from those of the parts that ranks have.
#pragma once

#include <ostraka/checkpoint/contents.hpp>
#include <ostraka/comm/communicator.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ostraka::checkpoint::impl {

/// The checksum of consecutive elements of a tensor, which is known by its number.
struct PartSum {
  std::int64_t tensor;
  std::int64_t begin;
  std::int64_t count; ///< > 0
  std::int64_t crc32c;
};

/// Those of all ranks. Collective; transient memory at most 4 MiB and what is returned.
std::vector<PartSum> gather_sums(comm::Communicator& group, const std::vector<PartSum>& own);

/// The checksum of every one of `tensors`. Throws INTERNAL naming the first tensor of which `parts` do not hold every
/// element once, with the number of elements expected and found.
std::vector<std::uint32_t> combine_sums(std::span<const Tensor> tensors, std::vector<PartSum> parts,
                                        const std::string& operation);

} // namespace ostraka::checkpoint::impl
