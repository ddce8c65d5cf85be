// SPDX-License-Identifier: Apache-2.0
// What plan_buffers and validate share: how parameters fall into buffers, and the two arrangements of one buffer.
#pragma once

#include <ostraka/ddp/bucket_layout.hpp>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace ostraka::ddp::impl {

/// Parameters start at multiples of this if the optimizer is sharded.
constexpr std::int64_t start_multiple = 64;

/// lcm(shards, 128), or lcm(shards, 128, 65536); shards >= 1.
std::int64_t end_multiple(int shards, bool pad_for_bandwidth);

/// Throws unless there is one gradient type per spec and ranks and shards are >= 1 and match.
void check_groups(const char* operation, std::span<const ParameterSpec> specs, std::span<const DType> gradient_dtypes,
                  const GroupSizes& dense, const GroupSizes& expert);

/// Buffers with key and parameters only. Throws naming the parameter whose type is wrong.
std::vector<BufferLayout> group(const char* operation, std::span<const ParameterSpec> specs,
                                std::span<const DType> gradient_dtypes);

/// "OPERATION: parameter 'NAME'"
std::string describe(const char* operation, const ParameterSpec& spec);

/// A parameter of a buffer.
struct Item {
  std::string what; ///< begins error texts
  std::int64_t numel;
  __int128 cost; ///< of one step of an optimizer that works on whole matrices
  bool shared_embedding;
};

/// The parameters of `buffer`, in its order. Throws naming the parameter whose shape is wrong.
std::vector<Item> items_of(const char* operation, const BufferLayout& buffer, std::span<const ParameterSpec> specs);

struct Rules {
  std::int64_t bucket_size;
  int shards;
  bool sharded;
  std::int64_t start_multiple; ///< 1 unless sharded
  std::int64_t end_multiple;   ///< 1 unless sharded
};

/// Fills in ranges and buckets.
void arrange_packed(BufferLayout& buffer, const std::vector<Item>& items, const Rules& rules);
void arrange_layer_wise(BufferLayout& buffer, const std::vector<Item>& items, const Rules& rules);

} // namespace ostraka::ddp::impl
