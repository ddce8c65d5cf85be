// SPDX-License-Identifier: Apache-2.0
// How a DistributedDataParallel works. Source: seed 004, spec/megatron_fsdp.md 5.1 - 5.4.
#pragma once

#include <ostraka/base/dtype.hpp>
#include <ostraka/base/export.hpp>
#include <ostraka/ddp/bucket_layout.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ostraka::ddp {

/// What a reduced gradient is; n is the number of ranks of the (dense) mesh. Numbers are part of the C ABI.
enum class Scaling : std::int32_t {
  mean = 0,      ///< the sum over the ranks divided by n, in the pass that sums
  pre_scale = 1, ///< the sum of what the ranks divided by n before; one more pass, but 16-bit sums cannot overflow
  sum = 2,       ///< the caller divides, by the number of samples of all ranks for instance
};

/// How often a gradient is contributed in a backward pass: as often as in the first one.
constexpr int uses_auto = -1;

struct Config : BucketOptions {
  Scaling scaling = Scaling::mean;
  bool overlap_grad_reduce = true;   ///< buckets are reduced as soon as their gradients are there; else there is one
  bool overlap_param_gather = false; ///< with a sharded optimizer: gathers run ahead of use; else within its step
  int uses = 1;                      ///< contributions of each parameter in a backward pass, >= 0, or uses_auto
  /// Of main weights and optimizer state: f64 or f32; none: f64 for weights of f64, else f32.
  std::optional<DType> main_dtype;
  /// In which gradients are kept and reduced: f64, f32 or bf16, which is summed in f32 and rounded once; none: f64 for
  /// weights of f64, else f32.
  std::optional<DType> gradient_dtype;
  /// Parameters (patterns with * and ?) whose bf16 gradients are accumulated in f32 before they are reduced.
  std::vector<std::string> f32_accumulators;
};

/// Throws INVALID_ARGUMENT or TYPE_MISMATCH naming what makes no sense.
OSTRAKA_API void validate(const Config& config);

/// The types that follow for a parameter.
OSTRAKA_API DType main_dtype_of(const Config& config, DType storage);
OSTRAKA_API DType gradient_dtype_of(const Config& config, DType storage);

} // namespace ostraka::ddp
