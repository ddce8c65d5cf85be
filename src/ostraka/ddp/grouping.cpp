// SPDX-License-Identifier: Apache-2.0
// Which parameters share a buffer.
#include <ostraka/base/checked.hpp>
#include <ostraka/base/error.hpp>
#include <ostraka/ddp/impl/arrange.hpp>

#include <algorithm>
#include <numeric>

namespace ostraka::ddp::impl {
namespace {

void check_sizes(const char* operation, const char* kind, const GroupSizes& sizes) {
  expect(sizes.ranks >= 1 && sizes.shards >= 1, Status::INVALID_ARGUMENT, operation, ": ", kind,
         " parameters: expected ranks and shards >= 1, found ", sizes.ranks, " and ", sizes.shards);
  expect(sizes.ranks % sizes.shards == 0, Status::INVALID_ARGUMENT, operation, ": ", kind,
         " parameters: expected shards that divide the ranks, found ", sizes.shards, " shards on ", sizes.ranks,
         " ranks");
}

bool is_allowed(DType dtype) { return dtype == DType::f64 || dtype == DType::f32 || dtype == DType::bf16; }

BufferKey key_of(const char* operation, const ParameterSpec& spec, DType gradient) {
  // name() refuses numbers that are no type.
  if (!is_allowed(spec.dtype))
    fail(Status::INVALID_ARGUMENT, describe(operation, spec), ": expected a storage type of f64, f32 or bf16, found ",
         name(spec.dtype));
  if (!is_allowed(gradient))
    fail(Status::INVALID_ARGUMENT, describe(operation, spec), ": expected gradients of f64, f32 or bf16, found ",
         name(gradient));
  return {spec.dtype, gradient, spec.expert};
}

// Newton-Schulz iterations multiply matrices; anything else costs what it has elements.
__int128 cost_of(const layout::Shape& shape, std::int64_t numel) {
  return shape.size() == 2 ? static_cast<__int128>(numel) * std::min(shape[0], shape[1]) : numel;
}

std::int64_t numel_of(const char* operation, const ParameterSpec& spec) {
  try {
    return layout::numel(spec.shape);
  } catch (const Error& error) {
    fail(error.status(), describe(operation, spec), ": ", error.what());
  }
}

} // namespace

std::string describe(const char* operation, const ParameterSpec& spec) {
  return std::string(operation) + ": parameter '" + spec.name + "'";
}

std::int64_t end_multiple(int shards, bool pad_for_bandwidth) {
  return std::lcm(std::int64_t{shards}, std::int64_t{pad_for_bandwidth ? 65536 : 128});
}

void check_groups(const char* operation, std::span<const ParameterSpec> specs, std::span<const DType> gradient_dtypes,
                  const GroupSizes& dense, const GroupSizes& expert) {
  expect(specs.size() == gradient_dtypes.size(), Status::INVALID_ARGUMENT, operation, ": expected ", specs.size(),
         " gradient types, one per parameter, found ", gradient_dtypes.size());
  narrow(std::ssize(specs), "number of parameters");
  check_sizes(operation, "dense", dense);
  check_sizes(operation, "expert", expert);
}

std::vector<BufferLayout> group(const char* operation, std::span<const ParameterSpec> specs,
                                std::span<const DType> gradient_dtypes) {
  std::vector<BufferLayout> buffers;
  for (std::size_t i = specs.size(); i-- > 0;) { // about the order in which a backward pass makes gradients
    if (!specs[i].trainable)
      continue;
    const BufferKey key = key_of(operation, specs[i], gradient_dtypes[i]);
    auto found = std::find_if(buffers.begin(), buffers.end(), [&](const BufferLayout& b) { return b.key == key; });
    if (found == buffers.end())
      found = buffers.insert(found, BufferLayout{key, {}, {}, {}, 1});
    found->parameters.push_back(static_cast<int>(i));
  }
  return buffers;
}

std::vector<Item> items_of(const char* operation, const BufferLayout& buffer, std::span<const ParameterSpec> specs) {
  std::vector<Item> items;
  for (const int parameter : buffer.parameters) {
    const ParameterSpec& spec = specs[static_cast<std::size_t>(parameter)];
    const std::int64_t numel = numel_of(operation, spec);
    items.push_back({describe(operation, spec), numel, cost_of(spec.shape, numel), spec.shared_embedding});
  }
  return items;
}

} // namespace ostraka::ddp::impl
