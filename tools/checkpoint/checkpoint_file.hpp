// SPDX-License-Identifier: Apache-2.0
// Reads tensors of a checkpoint block by block and checks them.
#pragma once

#include "file.hpp"
#include "progress.hpp"
#include <ostraka/checkpoint/contents.hpp>

#include <string>
#include <vector>

namespace ostraka::tool {

using checkpoint::Contents;
using checkpoint::Tensor;

/// The table of a checkpoint and its open file. INPUT_OUTPUT when it cannot be opened, Damage when it is open and no
/// whole checkpoint of a known format.
class CheckpointFile {
public:
  explicit CheckpointFile(const std::string& path);

  const std::string& path() const noexcept { return path_; }
  const File& file() const noexcept { return file_; }
  const Contents& contents() const noexcept { return contents_; }

private:
  std::string path_;
  File file_;
  Contents contents_;
};

/// A tensor from its first to its last byte.
class TensorReader {
public:
  TensorReader(const CheckpointFile& checkpoint, const Tensor& tensor) : checkpoint_(checkpoint), tensor_(tensor) {}

  /// Fills `bytes` with the next ones. Damage where the file ends before.
  void read(std::span<std::byte> bytes);
  /// The CRC-32C of all bytes read.
  std::uint32_t crc32c() const noexcept { return crc_; }
  /// After the last byte: Damage that names the tensor and both sums when they differ.
  void expect_sum() const;

private:
  const CheckpointFile& checkpoint_;
  const Tensor& tensor_;
  std::int64_t done_ = 0; // bytes
  std::uint32_t crc_ = 0;
};

/// The tensors of which a name is one of the patterns, all without patterns. INVALID_ARGUMENT for a pattern that
/// matches none.
std::vector<const Tensor*> select(const CheckpointFile& checkpoint, const std::vector<std::string>& only);

std::int64_t total_bytes(const std::vector<const Tensor*>& tensors);

} // namespace ostraka::tool
