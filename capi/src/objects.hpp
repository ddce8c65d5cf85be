// SPDX-License-Identifier: Apache-2.0
// The C++ objects behind the handles, and conversions of what C passes.
#pragma once

#include "handles.hpp"
#include "wall.hpp"
#include <ostraka/base/dtype.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/optim/optimizer.hpp>
#include <ostraka/types.h>

#include <algorithm>
#include <string>
#include <vector>

namespace ostraka::capi {

struct MeshObject {
  buffer::MeshPtr mesh;
};
struct LayoutObject {
  buffer::LayoutPtr layout;
  std::string report;
  std::string report_json;
};
struct BufferObject {
  buffer::DBuffer buffer;
};
struct ContextObject {
  std::shared_ptr<fsdp::FsdpContext> context;
  std::vector<ostraka_fsdp_module_t> modules; ///< they end with the context
};
struct ModuleObject {
  fsdp::FsdpModule* module;
};
struct OptimizerObject {
  std::unique_ptr<optim::Optimizer> optimizer;
};

// clang-format off
template <> struct Behind<ostraka_mesh_t> { using type = MeshObject; static constexpr auto name = "mesh"; };
template <> struct Behind<ostraka_layout_t> { using type = LayoutObject; static constexpr auto name = "layout"; };
template <> struct Behind<ostraka_buffer_t> { using type = BufferObject; static constexpr auto name = "buffer"; };
template <> struct Behind<ostraka_fsdp_context_t> { using type = ContextObject; static constexpr auto name = "context"; };
template <> struct Behind<ostraka_fsdp_module_t> { using type = ModuleObject; static constexpr auto name = "module"; };
template <> struct Behind<ostraka_optimizer_t> { using type = OptimizerObject; static constexpr auto name = "optimizer"; };
// clang-format on

/// Throws INVALID_ARGUMENT for a number that is no type.
inline DType to_dtype(std::int32_t dtype) {
  size_of(static_cast<DType>(dtype));
  return static_cast<DType>(dtype);
}

/// Callers of from_shape have room for this many extents.
constexpr std::int32_t max_dims = 8;

inline layout::Shape to_shape(const ostraka_shape_t& shape) {
  expect(shape.ndim >= 0 && shape.ndim <= max_dims, Status::INVALID_ARGUMENT, "a shape has ", shape.ndim,
         " dimensions, expected 0 to ", max_dims);
  expect(shape.ndim == 0 || shape.extents != nullptr, Status::INVALID_ARGUMENT, "the extents of a shape of ",
         shape.ndim, " dimensions are null");
  return {shape.extents, shape.extents + shape.ndim};
}

inline std::vector<layout::Shape> to_shapes(std::int32_t count, const ostraka_shape_t* shapes) {
  expect(count >= 0, Status::INVALID_ARGUMENT, "expected a number of tensors >= 0, found ", count);
  expect(count == 0 || shapes != nullptr, Status::INVALID_ARGUMENT, "'shapes' is null");
  std::vector<layout::Shape> result;
  for (std::int32_t i = 0; i < count; ++i)
    result.push_back(to_shape(shapes[i]));
  return result;
}

inline layout::Placements to_placements(const ostraka_placement_t* placements, int dims) {
  expect(placements != nullptr, Status::INVALID_ARGUMENT, "'placements' is null, expected ", dims, " of them");
  layout::Placements result;
  for (int axis = 0; axis < dims; ++axis)
    result.push_back({static_cast<layout::Placement::Kind>(placements[axis].kind),
                      static_cast<layout::ReduceOp>(placements[axis].op)});
  return result;
}

/// Hands a shape to the caller, who has room for 8 extents or passes null.
inline void from_shape(const layout::Shape& shape, std::int32_t* ndim, std::int64_t* extents) {
  expect(extents == nullptr || shape.size() <= max_dims, Status::NOT_SUPPORTED, "a shape of ", shape.size(),
         " dimensions, more than ", max_dims);
  output(ndim, "ndim") = static_cast<std::int32_t>(shape.size());
  if (extents != nullptr)
    std::copy(shape.begin(), shape.end(), extents);
}

inline ostraka_buffer_t make_buffer(buffer::DBuffer buffer) {
  return make_handle<ostraka_buffer_t>(std::make_shared<BufferObject>(BufferObject{std::move(buffer)}));
}

/// Checks the head of a config struct: older versions (shorter structs) are accepted, newer ones refused.
template <class Config>
void check_version(const Config& config, std::int32_t newest, const char* what) {
  expect(config.version >= 1 && config.version <= newest, Status::INVALID_ARGUMENT, what, ": expected version 1 to ",
         newest, ", found ", config.version, " (initialise the struct with its _init function)");
  expect(config.struct_size == static_cast<std::int64_t>(sizeof(Config)), Status::INVALID_ARGUMENT, what,
         ": expected a struct of ", sizeof(Config), " bytes, found ", config.struct_size,
         " (initialise the struct with its _init function)");
}

/// Writes `defaults` into a struct of the caller after checking that the sizes and versions fit.
template <class Config>
void initialise(Config* config, Config defaults, std::int64_t struct_size, std::int32_t version, std::int32_t newest,
                const char* what) {
  Config& target = output(config, what);
  defaults.struct_size = struct_size;
  defaults.version = version;
  check_version(defaults, newest, what);
  target = defaults;
}

} // namespace ostraka::capi
