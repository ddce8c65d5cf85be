// SPDX-License-Identifier: Apache-2.0
// The C++ objects behind the handles, and conversions of what C passes.
#pragma once

#include "handles.hpp"
#include "wall.hpp"
#include <ostraka/base/dtype.hpp>
#include <ostraka/buffer/dbuffer.hpp>
#include <ostraka/buffer/flat_buffer.hpp>
#include <ostraka/checkpoint/checkpoint.hpp>
#include <ostraka/checkpoint/chunks.hpp>
#include <ostraka/ddp/distributed_data_parallel.hpp>
#include <ostraka/fsdp.h>
#include <ostraka/fsdp/fsdp_context.hpp>
#include <ostraka/optim/optimizer.hpp>
#include <ostraka/plan/report.hpp>
#include <ostraka/plan/request.hpp>
#include <ostraka/types.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
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
struct FlatBufferObject {
  buffer::FlatBuffer flat;
};
struct ContextObject {
  std::shared_ptr<fsdp::FsdpContext> context;
  std::vector<ostraka_fsdp_module_t> modules; ///< they end with the context
};
struct ModuleObject {
  fsdp::FsdpModule* module;
  ContextObject* context; ///< ends after this
};
struct DdpObject {
  std::shared_ptr<ddp::DistributedDataParallel> ddp;
};
struct OptimizerObject {
  std::unique_ptr<optim::Optimizer> optimizer;
};
struct ExtrasObject {
  checkpoint::Extras values;
  std::vector<checkpoint::Field> fields;
  std::map<std::string, std::string> texts; ///< those handed out, with a zero at their end
};
struct AsyncSaveObject {
  std::unique_ptr<checkpoint::AsyncSave> save;
};
struct ChunksObject {
  std::map<std::string, checkpoint::Chunk> chunks;
};
struct PlanObject {
  plan::Request request;
  std::optional<plan::Report> report; ///< of the request, once it is computed
  std::string refused;                ///< why the recipe cannot be, else empty
};

// clang-format off
template <> struct Behind<ostraka_mesh_t> { using type = MeshObject; static constexpr auto name = "mesh"; };
template <> struct Behind<ostraka_layout_t> { using type = LayoutObject; static constexpr auto name = "layout"; };
template <> struct Behind<ostraka_buffer_t> { using type = BufferObject; static constexpr auto name = "buffer"; };
template <> struct Behind<ostraka_flat_buffer_t> { using type = FlatBufferObject; static constexpr auto name = "flat buffer"; };
template <> struct Behind<ostraka_fsdp_context_t> { using type = ContextObject; static constexpr auto name = "context"; };
template <> struct Behind<ostraka_fsdp_module_t> { using type = ModuleObject; static constexpr auto name = "module"; };
template <> struct Behind<ostraka_ddp_t> { using type = DdpObject; static constexpr auto name = "ddp"; };
template <> struct Behind<ostraka_optimizer_t> { using type = OptimizerObject; static constexpr auto name = "optimizer"; };
template <> struct Behind<ostraka_extras_t> { using type = ExtrasObject; static constexpr auto name = "extras"; };
template <> struct Behind<ostraka_async_save_t> { using type = AsyncSaveObject; static constexpr auto name = "asynchronous save"; };
template <> struct Behind<ostraka_chunks_t> { using type = ChunksObject; static constexpr auto name = "chunks"; };
template <> struct Behind<ostraka_plan_t> { using type = PlanObject; static constexpr auto name = "plan"; };
// clang-format on

/// Throws INVALID_ARGUMENT for a number that is no type.
inline DType to_dtype(std::int32_t dtype) {
  size_of(static_cast<DType>(dtype));
  return static_cast<DType>(dtype);
}

/// Throws INVALID_ARGUMENT for a number that is no device.
inline runtime::Device to_device(std::int32_t device) {
  expect(runtime::is_device(device), Status::INVALID_ARGUMENT, "expected device 0 (host) or 1 (cuda), found ", device);
  return static_cast<runtime::Device>(device);
}

/// A type, or -1 for none.
inline std::optional<DType> to_choice(std::int32_t dtype) {
  return dtype == -1 ? std::nullopt : std::optional(to_dtype(dtype));
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

/// Copies a list of strings; `what` names it in messages.
inline std::vector<std::string> to_strings(std::int32_t count, const char* const* strings, const char* what) {
  expect(count >= 0, Status::INVALID_ARGUMENT, "expected a number of ", what, " >= 0, found ", count);
  expect(count == 0 || strings != nullptr, Status::INVALID_ARGUMENT, "'", what, "' is null, expected ", count);
  std::vector<std::string> result;
  for (std::int32_t i = 0; i < count; ++i)
    result.push_back(text(strings[i], what));
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

/// Hands boxes to a caller with room for `max_boxes` of them; with 0 only their number.
inline void from_boxes(const std::vector<layout::Box>& boxes, std::int32_t max_boxes, std::int64_t* offsets,
                       std::int64_t* sizes, std::int32_t* num_boxes) {
  output(num_boxes, "num_boxes") = static_cast<std::int32_t>(boxes.size());
  if (max_boxes == 0)
    return;
  expect(static_cast<std::size_t>(std::max(max_boxes, 0)) >= boxes.size(), Status::SHAPE_MISMATCH, "expected room for ",
         boxes.size(), " boxes, found ", max_boxes);
  expect(boxes.empty() || boxes[0].sizes.empty() || (offsets != nullptr && sizes != nullptr), Status::INVALID_ARGUMENT,
         "'offsets' or 'sizes' is null");
  for (const layout::Box& box : boxes) {
    offsets = std::copy(box.offsets.begin(), box.offsets.end(), offsets);
    sizes = std::copy(box.sizes.begin(), box.sizes.end(), sizes);
  }
}

/// With its report, as texts.
ostraka_layout_t make_layout(buffer::LayoutPtr layout);

inline ostraka_buffer_t make_buffer(buffer::DBuffer buffer) {
  return make_handle<ostraka_buffer_t>(std::make_shared<BufferObject>(BufferObject{std::move(buffer)}));
}

/// What versions of a struct of the C interface there are: it grows at the end only.
struct Versions {
  const char* what;
  std::int32_t newest;
  std::int64_t first_size; ///< bytes in version 1
};

/// Checks the head of a struct: older versions (shorter structs) are accepted, newer ones refused.
template <class Config>
void check_version(const Versions& versions, std::int64_t struct_size, std::int32_t version) {
  const auto size = static_cast<std::int64_t>(sizeof(Config));
  expect(version >= 1 && version <= versions.newest, Status::INVALID_ARGUMENT, versions.what,
         ": expected version 1 to ", versions.newest, ", found ", version,
         " (initialise the struct with its _init function)");
  expect(struct_size >= versions.first_size && struct_size <= size, Status::INVALID_ARGUMENT, versions.what,
         ": expected a struct of ", versions.first_size, " to ", size, " bytes, found ", struct_size,
         " (initialise the struct with its _init function)");
}

/// The caller's struct, with defaults where an older version has no members; all defaults for null.
template <class Config>
Config read(const Config* config, const Config& defaults, const Versions& versions) {
  Config result = defaults;
  if (config == nullptr)
    return result;
  check_version<Config>(versions, config->struct_size, config->version);
  std::memcpy(&result, config, static_cast<std::size_t>(config->struct_size));
  return result;
}

/// Writes as much of `values` as the caller's struct has room for.
template <class Config>
void write(Config* config, Config values, std::int64_t struct_size, std::int32_t version, const Versions& versions) {
  check_version<Config>(versions, struct_size, version);
  values.struct_size = struct_size;
  values.version = version;
  std::memcpy(&output(config, versions.what), &values, static_cast<std::size_t>(struct_size));
}

constexpr Versions report_versions{"memory report", OSTRAKA_MEMORY_REPORT_VERSION, 64};

/// Hands `values` to a caller whose struct may be of an older version.
inline void write_report(ostraka_memory_report_t* report, const ostraka_memory_report_t& values) {
  const ostraka_memory_report_t& asked = output(report, "report");
  write(report, values, asked.struct_size, asked.version, report_versions);
}

} // namespace ostraka::capi
