/* SPDX-License-Identifier: Apache-2.0
 *
 * ostraka_buffer_redistribute_into between layouts, placements and meshes, and ostraka_buffer_set_name. Elements encode
 * tensor and index; padding holds a mark that no copy may touch.
 */
#include "suites.h"

#include <mpi.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS = 3 };
static const int64_t counts[TENSORS] = {15, 0, 7};
static const ostraka_shape_t shapes[TENSORS] = {MATRIX(5, 3), MATRIX(0, 2), VECTOR(7)};
static const ostraka_shape_t other_shapes[TENSORS] = {MATRIX(5, 3), MATRIX(0, 2), VECTOR(8)};
static const ostraka_placement_t shard = {OSTRAKA_SHARD, 0}, replicate = {OSTRAKA_REPLICATE, 0};
static const ostraka_placement_t sum = {OSTRAKA_PARTIAL, OSTRAKA_SUM};
static const double mark = -1;

static double value(int tensor, int64_t index) { return 100.0 * (tensor + 1) + (double)index; }

static void fill(ostraka_buffer_t buffer) {
  double data[15];
  for (int tensor = 0; tensor < TENSORS; ++tensor) {
    for (int64_t i = 0; i < counts[tensor]; ++i)
      data[i] = value(tensor, i);
    CHECK_OK(ostraka_buffer_copy_from(buffer, tensor, data, counts[tensor]));
  }
}

/* The local range as f64. */
static double* local(ostraka_buffer_t buffer, int64_t* count) {
  void* data = NULL;
  int64_t begin = 0;
  CHECK_OK(ostraka_buffer_local(buffer, &data, count, &begin));
  return data;
}

/* Compares what this rank has, all of it when `whole`; returns the number of elements. */
static int64_t check_values(ostraka_buffer_t buffer, int whole) {
  int64_t all = 0;
  for (int tensor = 0; tensor < TENSORS; ++tensor) {
    void* data = NULL;
    int64_t count = -1, offset = -1;
    CHECK_OK(ostraka_buffer_tensor_range(buffer, tensor, &data, &count, &offset));
    CHECK(!whole || count == counts[tensor]);
    for (int64_t i = 0; i < count; ++i)
      CHECK_NEAR(((double*)data)[i], value(tensor, offset + i), 0);
    all += count;
  }
  return all;
}

static void transfer(ostraka_buffer_t from, ostraka_buffer_t to, int whole) {
  int64_t size = 0, marks = 0;
  double* data = local(to, &size);
  for (int64_t i = 0; i < size; ++i)
    data[i] = mark;
  CHECK_OK(ostraka_buffer_redistribute_into(from, to));
  const int64_t elements = check_values(to, whole);
  for (int64_t i = 0; i < size; ++i)
    marks += data[i] == mark;
  CHECK_INT(marks, size - elements); /* padding stays as it is */
  check_values(from, 0);
}

static ostraka_layout_t build(int32_t policy, const ostraka_shape_t* of, int64_t multiple) {
  ostraka_layout_t layout = NULL;
  CHECK_OK(ostraka_layout_build(policy, TENSORS, of, 0, NULL, check_ranks, 1, multiple, &layout));
  return layout;
}

static ostraka_buffer_t make(ostraka_mesh_t mesh, const ostraka_placement_t* placements, ostraka_layout_t layout) {
  ostraka_buffer_t buffer = NULL;
  CHECK_OK(ostraka_buffer_create(mesh, placements, layout, OSTRAKA_F64, &buffer));
  return buffer;
}

/* Every pair of layouts and placements on a line and on a plane of the same ranks. */
static void every_pair(ostraka_mesh_t line) {
  const int32_t inner = check_ranks == 4 ? 2 : check_ranks, sizes[] = {check_ranks / inner, inner};
  const ostraka_placement_t half[] = {{OSTRAKA_REPLICATE, 0}, {OSTRAKA_SHARD, 0}}, both[] = {shard, shard};
  ostraka_mesh_t plane = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, sizes, NULL, &plane));
  ostraka_layout_t layouts[] = {build(OSTRAKA_REFERENCE, shapes, 1), build(OSTRAKA_PLANNED, shapes, 16),
                                build(OSTRAKA_RAGGED, shapes, 1)};
  enum { SIDES = 6 };
  ostraka_buffer_t sides[SIDES] = {make(line, &shard, layouts[0]), make(line, &replicate, layouts[0]),
                                   make(line, &shard, layouts[1]), make(plane, both, layouts[1]),
                                   make(plane, half, layouts[2]),  make(line, &shard, layouts[2])};
  for (int from = 0; from < SIDES; ++from)
    fill(sides[from]);
  for (int from = 0; from < SIDES; ++from)
    for (int to = 0; to < SIDES; ++to)
      if (from != to)
        transfer(sides[from], sides[to], to == 1);
  for (int i = 0; i < SIDES; ++i)
    CHECK_OK(ostraka_buffer_destroy(&sides[i]));
  for (int i = 0; i < 3; ++i)
    CHECK_OK(ostraka_layout_destroy(&layouts[i]));
  CHECK_OK(ostraka_mesh_destroy(&plane));
}

/* Refusals change nothing: the mark stays, and the right call works afterwards. */
#define REFUSED(from, out, status, words)                                                                              \
  do {                                                                                                                 \
    CHECK_FAILS(ostraka_buffer_redistribute_into(from, out), status, words);                                           \
    transfer(buffer, target, 0);                                                                                       \
  } while (0)

static void what_does_not_fit(ostraka_mesh_t mesh) {
  ostraka_layout_t layout = build(OSTRAKA_REFERENCE, shapes, 1), other = build(OSTRAKA_REFERENCE, other_shapes, 1);
  ostraka_layout_t ragged = build(OSTRAKA_RAGGED, shapes, 1);
  ostraka_buffer_t buffer = make(mesh, &shard, layout), target = make(mesh, &shard, ragged), out = NULL, view = NULL;
  fill(buffer);
  CHECK_OK(ostraka_buffer_create(mesh, &shard, layout, OSTRAKA_F32, &out));
  REFUSED(buffer, out, OSTRAKA_TYPE_MISMATCH, "out holds f32, expected f64");
  CHECK_OK(ostraka_buffer_destroy(&out));
  out = make(mesh, &shard, other);
  REFUSED(buffer, out, OSTRAKA_SHAPE_MISMATCH, "tensor 2: expected shape (7) as before, found (8)");
  CHECK_OK(ostraka_buffer_destroy(&out));
  CHECK_OK(ostraka_buffer_empty(mesh, &shard, 2, shapes, OSTRAKA_F64, &out));
  REFUSED(buffer, out, OSTRAKA_SHAPE_MISMATCH, "expected 3 tensors as before, found 2");
  CHECK_OK(ostraka_buffer_destroy(&out));
  out = make(mesh, &sum, layout);
  REFUSED(buffer, out, OSTRAKA_NOT_SUPPORTED, "axis 0 is [Partial(sum)]; reduce it first");
  REFUSED(out, buffer, OSTRAKA_NOT_SUPPORTED, "axis 0 is [Partial(sum)]; reduce it first");
  CHECK_OK(ostraka_buffer_destroy(&out));
  CHECK_OK(ostraka_buffer_view(buffer, &shard, &view));
  REFUSED(buffer, buffer, OSTRAKA_INVALID_ARGUMENT, "share memory");
  REFUSED(buffer, view, OSTRAKA_INVALID_ARGUMENT, "share memory");
  CHECK_OK(ostraka_buffer_destroy(&view));
  REFUSED(buffer, NULL, OSTRAKA_INVALID_HANDLE, "buffer handle is null");
  ostraka_buffer_t* const all[] = {&buffer, &target};
  for (int i = 0; i < 2; ++i)
    CHECK_OK(ostraka_buffer_destroy(all[i]));
  ostraka_layout_t* const layouts[] = {&layout, &other, &ragged};
  for (int i = 0; i < 3; ++i)
    CHECK_OK(ostraka_layout_destroy(layouts[i]));
}

static void ranks_and_storage_that_do_not_fit(ostraka_mesh_t mesh) {
  ostraka_layout_t layout = build(OSTRAKA_REFERENCE, shapes, 1);
  ostraka_buffer_t buffer = make(mesh, &replicate, layout), target = make(mesh, &replicate, layout), out = NULL;
  fill(buffer);
  if (check_ranks > 1) {
    ostraka_mesh_t reversed = NULL;
    MPI_Comm comm;
    MPI_Comm_split(MPI_COMM_WORLD, 0, -check_rank, &comm);
    CHECK_OK(ostraka_mesh_create(comm, 1, NULL, NULL, &reversed));
    MPI_Comm_free(&comm);
    out = make(reversed, &shard, layout);
    REFUSED(buffer, out, OSTRAKA_INVALID_ARGUMENT, "the same ranks in the same order");
    CHECK_OK(ostraka_buffer_destroy(&out));
    CHECK_OK(ostraka_mesh_destroy(&reversed));
  }
  out = make(mesh, &replicate, layout);
  fill(out);
  CHECK_OK(ostraka_buffer_release_storage(out));
  REFUSED(buffer, out, OSTRAKA_INVALID_STATE, "the storage of [Replicate] is released; reallocate_storage");
  REFUSED(out, buffer, OSTRAKA_INVALID_STATE, "the storage of [Replicate] is released; reallocate_storage");
  CHECK_OK(ostraka_buffer_destroy(&out));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
  CHECK_OK(ostraka_buffer_destroy(&target));
  CHECK_OK(ostraka_layout_destroy(&layout));
}

/* Ranks that are compared (OSTRAKA_CHECK) tell the names of what they move. */
static void gather_under_a_name(const char* name, const char* words) {
  ostraka_mesh_t mesh = make_mesh();
  ostraka_buffer_t buffer = NULL, view = NULL, result = NULL;
  CHECK_OK(ostraka_buffer_empty(mesh, &shard, TENSORS, shapes, OSTRAKA_F64, &buffer));
  CHECK_OK(ostraka_buffer_set_name(buffer, "replaced"));
  CHECK_OK(ostraka_buffer_set_name(buffer, name));
  CHECK_OK(ostraka_buffer_view(buffer, &shard, &view)); /* inherits the name */
  if (words == NULL || check_ranks == 1) {
    CHECK_OK(ostraka_buffer_allgather(view, 0, NULL, &result));
    CHECK_OK(ostraka_buffer_destroy(&result));
  } else {
    CHECK_FAILS(ostraka_buffer_allgather(view, 0, NULL, &result), OSTRAKA_RANKS_DISAGREE, words);
  }
  CHECK_OK(ostraka_buffer_destroy(&view));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}

static void names_show_in_messages(void) {
  const char* checked = getenv("OSTRAKA_CHECK");
  const int is_last = check_rank == check_ranks - 1;
  setenv("OSTRAKA_CHECK", "1", 1);
  gather_under_a_name("weights", NULL);
  gather_under_a_name(is_last ? "biases" : "weights", "f64 of 'biases'");
  if (checked == NULL)
    unsetenv("OSTRAKA_CHECK");
}

static void names_that_are_none(ostraka_mesh_t mesh) {
  ostraka_buffer_t buffer = NULL;
  CHECK_OK(ostraka_buffer_empty(mesh, &shard, TENSORS, shapes, OSTRAKA_F64, &buffer));
  CHECK_FAILS(ostraka_buffer_set_name(buffer, NULL), OSTRAKA_INVALID_ARGUMENT, "'name' is null");
  fill(buffer);
  check_values(buffer, 0);
  CHECK_OK(ostraka_buffer_destroy(&buffer));
}

void transfer_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  every_pair(mesh);
  what_does_not_fit(mesh);
  ranks_and_storage_that_do_not_fit(mesh);
  names_show_in_messages();
  names_that_are_none(mesh);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
