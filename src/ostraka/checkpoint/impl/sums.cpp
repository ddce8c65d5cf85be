// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/checkpoint/impl/crc32c.hpp>
#include <ostraka/checkpoint/impl/sums.hpp>
#include <ostraka/comm/agreement.hpp>

#include <algorithm>
#include <tuple>

namespace ostraka::checkpoint::impl {

namespace {

constexpr std::size_t round_bytes = 2 << 20; // sent and received; gather_bytes copies as much again

} // namespace

std::vector<PartSum> gather_sums(comm::Communicator& group, const std::vector<PartSum>& own) {
  const auto most = static_cast<std::size_t>(comm::largest(group, static_cast<std::int64_t>(own.size())));
  const auto ranks = static_cast<std::size_t>(group.size());
  const std::size_t at_once = std::max<std::size_t>(1, std::min(most, round_bytes / ((ranks + 1) * sizeof(PartSum))));
  std::vector<PartSum> result, mine(at_once), all(at_once * ranks);
  for (std::size_t first = 0; first < most; first += at_once) {
    for (std::size_t k = 0; k < at_once; ++k)
      mine[k] = first + k < own.size() ? own[first + k] : PartSum{};
    comm::gather_bytes(group, mine.data(), at_once * sizeof(PartSum), all.data());
    std::copy_if(all.begin(), all.end(), std::back_inserter(result), [](const PartSum& sum) { return sum.count > 0; });
  }
  return result;
}

std::vector<std::uint32_t> combine_sums(std::span<const Tensor> tensors, std::vector<PartSum> parts,
                                        const std::string& operation) {
  std::sort(parts.begin(), parts.end(), [](const PartSum& a, const PartSum& b) {
    return std::tie(a.tensor, a.begin) < std::tie(b.tensor, b.begin);
  });
  std::vector<std::uint32_t> result(tensors.size());
  auto part = parts.begin();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::int64_t end = 0, found = 0;
    bool is_gapless = true;
    for (; part != parts.end() && part->tensor == static_cast<std::int64_t>(i); ++part) {
      is_gapless = is_gapless && part->begin == end;
      end = part->begin + part->count;
      found += part->count;
      result[i] =
          crc32c_combine(result[i], static_cast<std::uint32_t>(part->crc32c), part->count * size_of(tensors[i].dtype));
    }
    const std::int64_t expected = layout::numel(tensors[i].shape);
    expect(is_gapless && found == expected, Status::INTERNAL, operation, ": '", tensors[i].path(), "': expected ",
           expected, " elements in the parts of the ranks, each once, found ", found);
  }
  return result;
}

} // namespace ostraka::checkpoint::impl
