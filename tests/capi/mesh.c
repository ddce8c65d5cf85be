/* SPDX-License-Identifier: Apache-2.0 */
#include "suites.h"

#include <mpi.h>

static void check_queries(ostraka_mesh_t mesh, int rank) {
  int32_t value = -1;
  CHECK_OK(ostraka_mesh_dims(mesh, &value));
  CHECK_INT(value, 1);
  CHECK_OK(ostraka_mesh_rank(mesh, &value));
  CHECK_INT(value, rank);
  CHECK_OK(ostraka_mesh_size(mesh, &value));
  CHECK_INT(value, check_ranks);
  CHECK_OK(ostraka_mesh_axis(mesh, "axis0", &value));
  CHECK_INT(value, 0);
  CHECK_OK(ostraka_mesh_axis_size(mesh, 0, &value));
  CHECK_INT(value, check_ranks);
  CHECK_OK(ostraka_mesh_coordinate(mesh, 0, &value));
  CHECK_INT(value, rank);
}

static void one_axis(void) {
  ostraka_mesh_t mesh = make_mesh();
  check_queries(mesh, check_rank);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
  CHECK(mesh == NULL);

  CHECK_OK(ostraka_mesh_create_f(MPI_Comm_c2f(MPI_COMM_WORLD), 1, NULL, NULL, &mesh));
  check_queries(mesh, check_rank);
  CHECK_OK(ostraka_mesh_destroy(&mesh));

  const char* const name[] = {"data"};
  int32_t axis = -1;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 1, NULL, name, &mesh));
  CHECK_OK(ostraka_mesh_axis(mesh, "data", &axis));
  CHECK_INT(axis, 0);
  CHECK_OK(ostraka_mesh_destroy(&mesh));

  /* Ranks in another order; the communicator is duplicated, so the caller may free his own. */
  MPI_Comm reversed;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &reversed);
  CHECK_OK(ostraka_mesh_create(reversed, 1, &check_ranks, NULL, &mesh));
  MPI_Comm_free(&reversed);
  check_queries(mesh, check_ranks - 1 - check_rank);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

static void two_axes(void) {
  const int32_t inner = check_ranks == 4 ? 2 : check_ranks, sizes[] = {check_ranks / inner, inner};
  const char* const names[] = {"outer", "inner"};
  const int32_t expected[] = {check_rank / inner, check_rank % inner};
  int32_t value = -1;
  ostraka_mesh_t mesh = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, sizes, names, &mesh));
  CHECK_OK(ostraka_mesh_dims(mesh, &value));
  CHECK_INT(value, 2);
  for (int32_t axis = 0; axis < 2; ++axis) {
    CHECK_OK(ostraka_mesh_axis(mesh, names[axis], &value));
    CHECK_INT(value, axis);
    CHECK_OK(ostraka_mesh_axis_size(mesh, axis, &value));
    CHECK_INT(value, sizes[axis]);
    CHECK_OK(ostraka_mesh_coordinate(mesh, axis, &value));
    CHECK_INT(value, expected[axis]);
  }
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

static void creation_errors(void) {
  const MPI_Comm world = MPI_COMM_WORLD;
  const int32_t n = check_ranks, too_many[] = {n + 1}, zero[] = {n, 0}, flat[] = {1, n};
  const char *const twins[] = {"a", "a"}, *const nameless[] = {"a", ""}, *const missing[] = {"a", NULL};
  ostraka_mesh_t mesh = NULL;
  CHECK_FAILS(ostraka_mesh_create(world, 1, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT, "'mesh' is null");
  CHECK_FAILS(ostraka_mesh_create_f(MPI_Comm_c2f(world), 1, NULL, NULL, NULL), OSTRAKA_INVALID_ARGUMENT,
              "'mesh' is null");
  CHECK_FAILS(ostraka_mesh_create(MPI_COMM_NULL, 1, NULL, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "MPI_COMM_NULL");
  CHECK_FAILS(ostraka_mesh_create(MPI_COMM_NULL, 1, &n, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "MPI_COMM_NULL");
  CHECK_FAILS(ostraka_mesh_create_f(MPI_Comm_c2f(MPI_COMM_NULL), 1, &n, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT,
              "MPI_COMM_NULL");
  CHECK_FAILS(ostraka_mesh_create(world, 2, NULL, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "'sizes' is null");
  CHECK_FAILS(ostraka_mesh_create(world, 0, &n, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "at least one axis");
  CHECK_FAILS(ostraka_mesh_create(world, -1, &n, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "at least one axis");
  CHECK_FAILS(ostraka_mesh_create(world, 1, too_many, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "multiply to");
  CHECK_FAILS(ostraka_mesh_create(world, 2, zero, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "size >= 1 on axis 1");
  CHECK_FAILS(ostraka_mesh_create(world, 2, flat, twins, &mesh), OSTRAKA_INVALID_ARGUMENT, "named 'a'");
  CHECK_FAILS(ostraka_mesh_create(world, 2, flat, nameless, &mesh), OSTRAKA_INVALID_ARGUMENT, "axis 1 is empty");
  CHECK_FAILS(ostraka_mesh_create(world, 2, flat, missing, &mesh), OSTRAKA_INVALID_ARGUMENT, "'names' is null");

  /* One rank alone is wrong: all ranks get the same answer. */
  const char* const different[] = {check_rank == 0 ? "odd" : "even"};
  const int32_t own = check_rank == check_ranks - 1 ? n + 1 : n;
  CHECK_FAILS(ostraka_mesh_create(world, 1, &own, NULL, &mesh), OSTRAKA_INVALID_ARGUMENT, "multiply to");
  if (n > 1)
    CHECK_FAILS(ostraka_mesh_create(world, 1, &n, different, &mesh), OSTRAKA_RANKS_DISAGREE, "axis sizes and names");
  CHECK(mesh == NULL);
}

#define REFUSED(call, words)                                                                                           \
  do {                                                                                                                 \
    CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, words);                                                                \
    check_queries(mesh, check_rank);                                                                                   \
  } while (0)

static void queries_refuse_and_stay_usable(void) {
  int32_t value = 0;
  ostraka_mesh_t mesh = make_mesh();
  REFUSED(ostraka_mesh_dims(mesh, NULL), "'dims' is null");
  REFUSED(ostraka_mesh_rank(mesh, NULL), "'rank' is null");
  REFUSED(ostraka_mesh_size(mesh, NULL), "'size' is null");
  REFUSED(ostraka_mesh_axis(mesh, "axis0", NULL), "'axis' is null");
  REFUSED(ostraka_mesh_axis(mesh, NULL, &value), "'name' is null");
  REFUSED(ostraka_mesh_axis(mesh, "depth", &value), "no axis is named 'depth'; the axes are axis0");
  REFUSED(ostraka_mesh_axis_size(mesh, 0, NULL), "'size' is null");
  REFUSED(ostraka_mesh_axis_size(mesh, 1, &value), "axis from 0 to 0, found 1");
  REFUSED(ostraka_mesh_axis_size(mesh, -1, &value), "found -1");
  REFUSED(ostraka_mesh_coordinate(mesh, 0, NULL), "'coordinate' is null");
  REFUSED(ostraka_mesh_coordinate(mesh, 1, &value), "axis from 0 to 0, found 1");
  int64_t bytes = 0;
  REFUSED(ostraka_mesh_memory(mesh, 5, &bytes, &bytes), "kind of memory from 0 (other) to 4 (transient), found 5");
  REFUSED(ostraka_mesh_memory(mesh, -1, &bytes, &bytes), "found -1");
  REFUSED(ostraka_mesh_memory(mesh, 0, NULL, &bytes), "'in_use' is null");
  REFUSED(ostraka_mesh_memory(mesh, 0, &bytes, NULL), "'peak' is null");
  REFUSED(ostraka_mesh_destroy(NULL), "address of the mesh handle is null");
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

static void check_memory(ostraka_mesh_t mesh, int32_t kind, int64_t in_use, int64_t peak) {
  int64_t found = -1, found_peak = -1;
  CHECK_OK(ostraka_mesh_memory(mesh, kind, &found, &found_peak));
  CHECK_INT(found, in_use);
  CHECK_INT(found_peak, peak);
}

/* Buffers count in blocks of 64 bytes; released storage, views and the caller's memory do not count. */
static void memory_of_buffers(void) {
  const ostraka_placement_t replicate = {OSTRAKA_REPLICATE, 0};
  const ostraka_shape_t shape = VECTOR(9), numbers = VECTOR(100);
  double own[9] = {0};
  ostraka_mesh_t mesh = make_mesh();
  ostraka_layout_t layout = NULL;
  ostraka_buffer_t first = NULL, second = NULL, view = NULL, wrapped = NULL;
  for (int32_t kind = OSTRAKA_MEMORY_OTHER; kind <= OSTRAKA_MEMORY_TRANSIENT; ++kind)
    check_memory(mesh, kind, 0, 0);
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 1, &shape, 0, NULL, 1, 1, 1, &layout));
  CHECK_OK(ostraka_buffer_create(mesh, &replicate, layout, OSTRAKA_F64, &first)); /* 72 bytes */
  check_memory(mesh, OSTRAKA_MEMORY_OTHER, 128, 128);
  CHECK_OK(ostraka_buffer_empty(mesh, &replicate, 1, &numbers, OSTRAKA_U8, &second));
  check_memory(mesh, OSTRAKA_MEMORY_OTHER, 256, 256);
  CHECK_OK(ostraka_buffer_view(first, &replicate, &view));
  CHECK_OK(ostraka_buffer_from_local(mesh, &replicate, layout, OSTRAKA_F64, own, 9, 0, &wrapped));
  check_memory(mesh, OSTRAKA_MEMORY_OTHER, 256, 256);
  CHECK_OK(ostraka_buffer_release_storage(first));
  check_memory(mesh, OSTRAKA_MEMORY_OTHER, 128, 256);
  CHECK_OK(ostraka_buffer_reallocate_storage(first));
  CHECK_OK(ostraka_buffer_destroy(&second));
  check_memory(mesh, OSTRAKA_MEMORY_OTHER, 128, 256);
  ostraka_buffer_t* const rest[] = {&first, &view, &wrapped};
  for (int i = 0; i < 3; ++i)
    CHECK_OK(ostraka_buffer_destroy(rest[i]));
  for (int32_t kind = OSTRAKA_MEMORY_OTHER; kind <= OSTRAKA_MEMORY_TRANSIENT; ++kind)
    check_memory(mesh, kind, 0, kind == OSTRAKA_MEMORY_OTHER ? 256 : 0);
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

void mesh_suite(void) {
  one_axis();
  two_axes();
  creation_errors();
  queries_refuse_and_stay_usable();
  memory_of_buffers();
}
