// SPDX-License-Identifier: Apache-2.0
#include "objects.hpp"
#include <ostraka/mesh.h>

using namespace ostraka;
using namespace ostraka::capi;

namespace {

std::vector<int> to_sizes(MPI_Comm comm, std::int32_t dims, const std::int32_t* sizes) {
  if (sizes != nullptr)
    return {sizes, sizes + std::max(dims, 0)};
  expect(dims == 1, Status::INVALID_ARGUMENT, "'sizes' is null, which means all ranks on one axis, but dims is ", dims);
  expect(comm != MPI_COMM_NULL, Status::INVALID_ARGUMENT, "the communicator is MPI_COMM_NULL");
  int size = 0;
  MPI_Comm_size(comm, &size);
  return {size};
}

std::vector<std::string> to_names(std::int32_t dims, const char* const* names) {
  std::vector<std::string> result;
  for (std::int32_t axis = 0; names != nullptr && axis < dims; ++axis)
    result.push_back(text(names[axis], "names"));
  return result;
}

} // namespace

extern "C" {

ostraka_status_t ostraka_mesh_create(MPI_Comm comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                     ostraka_mesh_t* mesh) {
  return wall(__func__, [&] {
    ostraka_mesh_t& result = output(mesh, "mesh");
    mesh::require_mpi("mesh");
    result = make_handle<ostraka_mesh_t>(std::make_shared<MeshObject>(
        MeshObject{mesh::DeviceMesh::create(comm, to_sizes(comm, dims, sizes), to_names(dims, names))}));
  });
}

ostraka_status_t ostraka_mesh_create_f(MPI_Fint comm, int32_t dims, const int32_t* sizes, const char* const* names,
                                       ostraka_mesh_t* mesh) {
  const ostraka_status_t status = wall(__func__, [] { mesh::require_mpi("mesh"); }); // before MPI_Comm_f2c
  return status != OSTRAKA_OK ? status : ostraka_mesh_create(MPI_Comm_f2c(comm), dims, sizes, names, mesh);
}

ostraka_status_t ostraka_mesh_destroy(ostraka_mesh_t* mesh) {
  return wall(__func__, [&] { remove(mesh); });
}

ostraka_status_t ostraka_mesh_dims(ostraka_mesh_t mesh, int32_t* dims) {
  return wall(__func__, [&] { output(dims, "dims") = get(mesh)->mesh->dims(); });
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
}
