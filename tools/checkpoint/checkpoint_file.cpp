// SPDX-License-Identifier: Apache-2.0
#include "checkpoint_file.hpp"

#include "damage.hpp"
#include "text.hpp"
#include <ostraka/checkpoint/impl/crc32c.hpp>

#include <algorithm>

namespace ostraka::tool {
namespace {

/// The file is open: what is wrong now is wrong with its bytes.
Contents read_table(const std::string& path) {
  try {
    return checkpoint::read_contents(path);
  } catch (const Error& error) {
    if (error.status() == Status::NOT_SUPPORTED)
      throw;
    throw Damage(error.what());
  }
}

bool has_selected_name(const Tensor& tensor, const std::vector<std::string>& only) {
  return is_selected(tensor.name, only) ||
         std::any_of(tensor.other_names.begin(), tensor.other_names.end(),
                     [&](const std::string& name) { return is_selected(name, only); });
}

} // namespace

CheckpointFile::CheckpointFile(const std::string& path)
    : path_(path), file_(path, File::Access::read), contents_(read_table(path)) {}

void TensorReader::read(std::span<std::byte> bytes) {
  checkpoint_.file().read(tensor_.offset + done_, bytes, tensor_.path());
  crc_ = checkpoint::impl::crc32c(crc_, bytes.data(), bytes.size());
  done_ += static_cast<std::int64_t>(bytes.size());
}

void TensorReader::expect_sum() const {
  expect_whole(crc_ == tensor_.crc32c, checkpoint_.path(), ": ", tensor_.path(), ": CRC-32C: expected ",
               hexadecimal(tensor_.crc32c), ", found ", hexadecimal(crc_), ": its bytes are damaged");
}

std::vector<const Tensor*> select(const CheckpointFile& checkpoint, const std::vector<std::string>& only) {
  const auto& tensors = checkpoint.contents().tensors;
  for (const std::string& pattern : only)
    expect(std::any_of(tensors.begin(), tensors.end(),
                       [&](const Tensor& tensor) { return has_selected_name(tensor, {pattern}); }),
           Status::INVALID_ARGUMENT, checkpoint.path(), ": --only '", pattern, "' matches none of ", tensors.size(),
           " tensors; ostraka-checkpoint list prints their names");
  std::vector<const Tensor*> result;
  for (const Tensor& tensor : tensors)
    if (has_selected_name(tensor, only))
      result.push_back(&tensor);
  return result;
}

std::int64_t total_bytes(const std::vector<const Tensor*>& tensors) {
  std::int64_t bytes = 0;
  for (const Tensor* tensor : tensors)
    bytes += tensor->bytes();
  return bytes;
}

} // namespace ostraka::tool
