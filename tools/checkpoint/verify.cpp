// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"
#include "commands.hpp"
#include "damage.hpp"
#include "text.hpp"

#include <cstdio>

namespace ostraka::tool {
namespace {

void check(const CheckpointFile& checkpoint, const Tensor& tensor, std::vector<std::byte>& buffer, Progress& progress) {
  TensorReader reader(checkpoint, tensor);
  for_each_block(tensor.bytes(), buffer, progress, [&](std::int64_t, auto block) { reader.read(block); });
  reader.expect_sum();
}

} // namespace

int verify(const VerifyOptions& options) {
  const CheckpointFile checkpoint(options.file);
  const auto tensors = select(checkpoint, options.only);
  std::vector<std::byte> buffer(block_bytes);
  std::vector<std::string> damages;
  {
    Progress progress("verify", total_bytes(tensors));
    for (const Tensor* tensor : tensors)
      try {
        check(checkpoint, *tensor, buffer, progress);
      } catch (const Damage& damage) {
        damages.emplace_back(damage.what());
      }
  }
  for (const std::string& damage : damages)
    std::printf("%s\n", printable(damage).c_str());
  const std::string sum = std::to_string(tensors.size()) + " tensors, " + human_bytes(total_bytes(tensors));
  if (damages.empty())
    std::printf("%s: whole: %s\n", options.file.c_str(), sum.c_str());
  else
    std::printf("%s: damaged: %zu of %s\n", options.file.c_str(), damages.size(), sum.c_str());
  return damages.empty() ? success : difference_found;
}

} // namespace ostraka::tool
