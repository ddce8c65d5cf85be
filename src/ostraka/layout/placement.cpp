// SPDX-License-Identifier: Apache-2.0
#include <ostraka/base/error.hpp>
#include <ostraka/layout/placement.hpp>

namespace ostraka::layout {
namespace {

/// Null for a number that is no kind: kinds arrive as plain integers through the C interface.
const char* kind_name(Placement::Kind kind) {
  switch (kind) {
  case Placement::Kind::replicate:
    return "Replicate";
  case Placement::Kind::shard:
    return "Shard";
  case Placement::Kind::partial:
    return "Partial";
  }
  return nullptr;
}

std::string text_or_number(const char* text, std::int32_t number) {
  return text != nullptr ? text : "unknown " + std::to_string(number);
}

std::string to_string(const Placement& placement) {
  std::string text = text_or_number(kind_name(placement.kind), static_cast<std::int32_t>(placement.kind));
  if (placement.is_partial())
    text += "(" + text_or_number(name(placement.op), static_cast<std::int32_t>(placement.op)) + ")";
  return text;
}

bool is_known(const Placement& placement) {
  return kind_name(placement.kind) != nullptr && (!placement.is_partial() || name(placement.op) != nullptr);
}

void check_known(std::span<const Placement> placements) {
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    if (!is_known(placements[axis]))
      fail(Status::INVALID_ARGUMENT, "placements ", to_string(placements), ": axis ", axis,
           ": expected Replicate, Shard or Partial(sum, mean, max, min or prod), found ", to_string(placements[axis]));
}

void check_suffix(std::span<const Placement> placements) {
  for (std::size_t axis = 1; axis < placements.size(); ++axis)
    if (placements[axis - 1].is_shard() && !placements[axis].is_shard())
      fail(Status::INVALID_ARGUMENT, "placements ", to_string(placements),
           ": Shard axes must be a suffix: expected Shard on axis ", axis, ", found ", to_string(placements[axis]));
}

} // namespace

const char* name(ReduceOp op) {
  switch (op) {
  case ReduceOp::sum:
    return "sum";
  case ReduceOp::mean:
    return "mean";
  case ReduceOp::max:
    return "max";
  case ReduceOp::min:
    return "min";
  case ReduceOp::prod:
    return "prod";
  }
  return nullptr;
}

std::string to_string(std::span<const Placement> placements) {
  std::string text = "[";
  for (std::size_t axis = 0; axis < placements.size(); ++axis)
    text += (axis == 0 ? "" : ", ") + to_string(placements[axis]);
  return text + "]";
}

void validate(std::span<const Placement> placements, int mesh_dims) {
  if (mesh_dims < 0 || placements.size() != static_cast<std::size_t>(mesh_dims))
    fail(Status::INVALID_ARGUMENT, "placements ", to_string(placements), ": expected ", mesh_dims,
         " placements, one per mesh axis, found ", placements.size());
  check_known(placements);
  check_suffix(placements);
}

} // namespace ostraka::layout
