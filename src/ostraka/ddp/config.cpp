// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/ddp/config.hpp>

namespace ostraka::ddp {

namespace {

DType wide(DType storage) { return storage == DType::f64 ? DType::f64 : DType::f32; }

} // namespace

void validate(const Config& config) {
  validate(static_cast<const BucketOptions&>(config));
  const auto scaling = static_cast<std::int32_t>(config.scaling);
  expect(scaling >= 0 && scaling <= 2, Status::INVALID_ARGUMENT,
         "ddp: expected the scaling mean (0), pre_scale (1) or sum (2), found ", scaling);
  expect(config.uses >= 0 || config.uses == uses_auto, Status::INVALID_ARGUMENT,
         "ddp: expected uses >= 0 or uses_auto (-1), found ", config.uses);
  expect(config.sharded_optimizer || !config.overlap_param_gather, Status::INVALID_ARGUMENT,
         "ddp: overlap_param_gather needs sharded_optimizer, else there is nothing to gather");
  if (config.main_dtype)
    expect(*config.main_dtype == DType::f64 || *config.main_dtype == DType::f32, Status::TYPE_MISMATCH,
           "ddp: expected the main_dtype f64 or f32, found ", name(*config.main_dtype));
  if (config.gradient_dtype)
    expect(*config.gradient_dtype == DType::f64 || *config.gradient_dtype == DType::f32 ||
               *config.gradient_dtype == DType::bf16,
           Status::TYPE_MISMATCH, "ddp: expected the gradient_dtype f64, f32 or bf16, found ",
           name(*config.gradient_dtype));
  expect(config.f32_accumulators.empty() || config.gradient_dtype == DType::bf16, Status::INVALID_ARGUMENT,
         "ddp: f32_accumulators need the gradient_dtype bf16; other gradients are as precise themselves");
}

DType main_dtype_of(const Config& config, DType storage) { return config.main_dtype.value_or(wide(storage)); }

DType gradient_dtype_of(const Config& config, DType storage) { return config.gradient_dtype.value_or(wide(storage)); }

} // namespace ostraka::ddp
