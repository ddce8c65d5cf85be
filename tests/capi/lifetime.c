/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of its own: before MPI_Init, between MPI_Init and ostraka_initialize, nested starts, after the last
 * ostraka_finalize, and after MPI_Finalize.
 */
#include "check.h"

#include <mpi.h>
#include <string.h>

static const int64_t extents[] = {4};
static const ostraka_shape_t shape = {1, extents};

/* Layouts, configs and messages need neither MPI nor the library to be started. */
static void check_what_always_works(void) {
  ostraka_layout_t layout = NULL;
  ostraka_fsdp_config_t config;
  int64_t size = 0;
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 1, &shape, 0, NULL, 3, 1, 1, &layout));
  CHECK_OK(ostraka_layout_size(layout, &size));
  CHECK_INT(size, 6);
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK_OK(ostraka_fsdp_config_init(&config));
  CHECK(strcmp(ostraka_version_string(), "0.1.0") == 0);
  CHECK(strcmp(ostraka_status_name(OSTRAKA_OK), "OK") == 0);
}

static void check_stopped(const char* words) {
  ostraka_mesh_t mesh = NULL;
  CHECK_INT(ostraka_is_initialized(), 0);
  CHECK_FAILS(ostraka_mesh_create(MPI_COMM_WORLD, 1, NULL, NULL, &mesh), OSTRAKA_INVALID_STATE, words);
  CHECK_FAILS(ostraka_mesh_create(MPI_COMM_WORLD, 1, &check_ranks, NULL, &mesh), OSTRAKA_INVALID_STATE, words);
  CHECK_FAILS(ostraka_mesh_create_f(0, 1, &check_ranks, NULL, &mesh), OSTRAKA_INVALID_STATE, words);
  CHECK(mesh == NULL);
  CHECK_FAILS(ostraka_finalize(), OSTRAKA_INVALID_STATE, "not initialised");
  check_what_always_works();
}

static void use_the_library(void) {
  const ostraka_placement_t replicate = {OSTRAKA_REPLICATE, 0};
  ostraka_mesh_t mesh = NULL;
  ostraka_buffer_t buffer = NULL;
  CHECK_INT(ostraka_is_initialized(), 1);
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 1, NULL, NULL, &mesh));
  CHECK_OK(ostraka_buffer_empty(mesh, &replicate, 1, &shape, OSTRAKA_F64, &buffer));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

int main(int argc, char** argv) {
  check_stopped("MPI is not initialised");
  CHECK_FAILS(ostraka_initialize(), OSTRAKA_INVALID_STATE, "MPI is not initialised");

  check_start(&argc, &argv);
  check_stopped("the library is not initialised");

  CHECK_OK(ostraka_initialize());
  CHECK_OK(ostraka_initialize()); /* counted */
  use_the_library();
  CHECK_OK(ostraka_finalize());
  use_the_library();

  /* A mesh that outlives MPI frees local memory only. */
  ostraka_mesh_t late = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 1, NULL, NULL, &late));
  CHECK_OK(ostraka_finalize());
  CHECK_INT(ostraka_is_initialized(), 0);
  CHECK_FAILS(ostraka_finalize(), OSTRAKA_INVALID_STATE, "not initialised");
  check_stopped("the library is not initialised");
  CHECK_FAILS(ostraka_initialize(), OSTRAKA_INVALID_STATE, "cannot start again"); /* Kokkos */

  const int failed = check_finish(); /* MPI_Finalize */
  CHECK_OK(ostraka_mesh_destroy(&late));
  CHECK_FAILS(ostraka_initialize(), OSTRAKA_INVALID_STATE, "MPI is finalised already");
  check_stopped("MPI is finalised already");
  return check_finish_alone() || failed;
}
