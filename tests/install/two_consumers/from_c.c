/* SPDX-License-Identifier: Apache-2.0 */
#include <ostraka/ostraka.h>

#include <stddef.h>

#include <mpi.h>

static ostraka_mesh_t mesh;

/* Starts the library for itself and keeps a mesh. */
int open_c(void) {
  return ostraka_initialize() == OSTRAKA_OK && ostraka_mesh_create(MPI_COMM_WORLD, 1, NULL, NULL, &mesh) == OSTRAKA_OK;
}

/* Whether the mesh still works; then stops. */
int close_c(void) {
  int32_t size = 0;
  const int works = ostraka_mesh_size(mesh, &size) == OSTRAKA_OK && size == 2;
  return works && ostraka_mesh_destroy(&mesh) == OSTRAKA_OK && ostraka_finalize() == OSTRAKA_OK;
}
