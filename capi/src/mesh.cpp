// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/mesh.h>

using namespace ostraka;
using namespace ostraka::capi;

namespace {

std::vector<std::string> to_names(std::int32_t dims, const char* const* names) {
  std::vector<std::string> result;
  for (std::int32_t axis = 0; names != nullptr && axis < dims; ++axis)
    result.push_back(text(names[axis], "names"));
  return result;
}

constexpr std::int32_t where_the_environment_says = -1;

buffer::MeshPtr create_mesh(MPI_Comm comm, std::int32_t dims, const std::int32_t* sizes, const char* const* names,
                            std::int32_t device) {
  std::optional<runtime::Device> on;
  if (device != where_the_environment_says)
    on = static_cast<runtime::Device>(device); // which all ranks find wrong together
  if (sizes != nullptr)
    return mesh::DeviceMesh::create(comm, {sizes, sizes + std::max(dims, 0)}, to_names(dims, names), on);
  expect(dims == 1, Status::INVALID_ARGUMENT, "'sizes' is null, which means all ranks on one axis, but dims is ", dims);
  return mesh::DeviceMesh::create_line(comm, to_names(dims, names), on);
}

ostraka_mesh_t make_mesh(MPI_Comm comm, std::int32_t dims, const std::int32_t* sizes, const char* const* names,
                         std::int32_t device = where_the_environment_says) {
  auto made = create_mesh(comm, dims, sizes, names, device);
  return make_handle<ostraka_mesh_t>(std::make_shared<MeshObject>(MeshObject{std::move(made)}));
}

// Callers compare with the members of ostraka_memory_report_t.
static_assert(OSTRAKA_MEMORY_OTHER == static_cast<int>(memory::Kind::other));
static_assert(OSTRAKA_MEMORY_PARAMETERS == static_cast<int>(memory::Kind::parameters));
static_assert(OSTRAKA_MEMORY_GRADIENTS == static_cast<int>(memory::Kind::gradients));
static_assert(OSTRAKA_MEMORY_OPTIMIZER_STATE == static_cast<int>(memory::Kind::optimizer_state));
static_assert(OSTRAKA_MEMORY_TRANSIENT == static_cast<int>(memory::Kind::transient));

memory::Kind to_kind(std::int32_t kind) {
  expect(kind >= 0 && kind < memory::num_kinds, Status::INVALID_ARGUMENT,
         "mesh: expected a kind of memory from 0 (other) to 4 (transient), found ", kind);
  return static_cast<memory::Kind>(kind);
}

} // namespace

extern "C" {

ostraka_status_t ostraka_mesh_create(MPI_Comm comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                     ostraka_mesh_t* mesh) {
  return wall(__func__, [&] {
    ostraka_mesh_t& result = output(mesh, "mesh");
    mesh::require_mpi("mesh");
    result = make_mesh(comm, dims, sizes, names);
  });
}

ostraka_status_t ostraka_mesh_create_on(MPI_Comm comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                        int32_t device, ostraka_mesh_t* mesh) {
  return wall(__func__, [&] {
    ostraka_mesh_t& result = output(mesh, "mesh");
    mesh::require_mpi("mesh");
    result = make_mesh(comm, dims, sizes, names, device);
  });
}

ostraka_status_t ostraka_mesh_create_f(MPI_Fint comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                       ostraka_mesh_t* mesh) {
  return wall(__func__, [&] {
    ostraka_mesh_t& result = output(mesh, "mesh");
    mesh::require_mpi("mesh"); // before MPI_Comm_f2c
    result = make_mesh(MPI_Comm_f2c(comm), dims, sizes, names);
  });
}

ostraka_status_t ostraka_mesh_create_on_f(MPI_Fint comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                          int32_t device, ostraka_mesh_t* mesh) {
  return wall(__func__, [&] {
    ostraka_mesh_t& result = output(mesh, "mesh");
    mesh::require_mpi("mesh");
    result = make_mesh(MPI_Comm_f2c(comm), dims, sizes, names, device);
  });
}

ostraka_status_t ostraka_mesh_destroy(ostraka_mesh_t* mesh) {
  return wall(__func__, [&] { remove(mesh); });
}

ostraka_status_t ostraka_mesh_dims(ostraka_mesh_t mesh, int32_t* dims) {
  return wall(__func__, [&] { output(dims, "dims") = get(mesh)->mesh->dims(); });
}

ostraka_status_t ostraka_mesh_device(ostraka_mesh_t mesh, int32_t* device) {
  return wall(__func__, [&] { output(device, "device") = static_cast<int32_t>(get(mesh)->mesh->device()); });
}

ostraka_status_t ostraka_mesh_rank(ostraka_mesh_t mesh, int32_t* rank) {
  return wall(__func__, [&] { output(rank, "rank") = get(mesh)->mesh->rank(); });
}

ostraka_status_t ostraka_mesh_size(ostraka_mesh_t mesh, int32_t* size) {
  return wall(__func__, [&] { output(size, "size") = get(mesh)->mesh->size(); });
}

ostraka_status_t ostraka_mesh_axis(ostraka_mesh_t mesh, const char* name, int32_t* axis) {
  return wall(__func__, [&] { output(axis, "axis") = get(mesh)->mesh->axis(text(name, "name")); });
}

ostraka_status_t ostraka_mesh_axis_size(ostraka_mesh_t mesh, int32_t axis, int32_t* size) {
  return wall(__func__, [&] { output(size, "size") = get(mesh)->mesh->axis_size(axis); });
}

ostraka_status_t ostraka_mesh_coordinate(ostraka_mesh_t mesh, int32_t axis, int32_t* coordinate) {
  return wall(__func__, [&] { output(coordinate, "coordinate") = get(mesh)->mesh->coordinate(axis); });
}

ostraka_status_t ostraka_mesh_memory(ostraka_mesh_t mesh, int32_t kind, int64_t* in_use, int64_t* peak) {
  return wall(__func__, [&] {
    const memory::Usage usage = get(mesh)->mesh->arena()->usage(to_kind(kind));
    output(in_use, "in_use") = usage.in_use;
    output(peak, "peak") = usage.peak;
  });
}
}
