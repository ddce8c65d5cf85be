/* SPDX-License-Identifier: Apache-2.0
 *
 * What buffer.h refuses; after each refusal the buffer is gathered and compared.
 */
#include "suites.h"

#include <math.h>
#include <mpi.h>
#include <stdlib.h>

enum { LENGTH = 12 };
static const int64_t extents[] = {LENGTH}, other_extents[] = {LENGTH + 1}, row_extents[] = {3, 5};
static const ostraka_shape_t shape = {1, extents}, other_shape = {1, other_extents}, rows_shape = {2, row_extents};
static const ostraka_placement_t shard = {OSTRAKA_SHARD, 0}, replicate = {OSTRAKA_REPLICATE, 0};
static const ostraka_placement_t sum = {OSTRAKA_PARTIAL, OSTRAKA_SUM}, mean = {OSTRAKA_PARTIAL, OSTRAKA_MEAN};
static double values[LENGTH];

static struct {
  ostraka_mesh_t mesh;
  ostraka_layout_t layout;
  ostraka_buffer_t buffer; /* sharded 0, 1, 2, ... */
} fixture;

static void check_usable(void) {
  ostraka_buffer_t whole = NULL;
  void* data = NULL;
  int64_t count = 0, offset = 0;
  if (!CHECK_OK(ostraka_buffer_allgather(fixture.buffer, 0, NULL, &whole)))
    return;
  CHECK_OK(ostraka_buffer_tensor_range(whole, 0, &data, &count, &offset));
  CHECK_INT(count, LENGTH);
  for (int64_t i = 0; i < count; ++i)
    CHECK_NEAR(((double*)data)[i], (double)i, 0);
  CHECK_OK(ostraka_buffer_destroy(&whole));
}

#define REFUSED(call, status, words)                                                                                   \
  do {                                                                                                                 \
    CHECK_FAILS(call, status, words);                                                                                  \
    check_usable();                                                                                                    \
  } while (0)

static void placements_that_are_none(void) {
  const ostraka_placement_t kind = {7, 0}, op = {OSTRAKA_PARTIAL, 9};
  const void* const tensors[] = {values};
  const ostraka_mesh_t mesh = fixture.mesh;
  ostraka_buffer_t result = NULL;
  REFUSED(ostraka_buffer_create(mesh, &kind, fixture.layout, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT,
          "expected Replicate, Shard");
  REFUSED(ostraka_buffer_empty(mesh, &kind, 1, &shape, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT, "unknown 7");
  REFUSED(ostraka_buffer_empty(mesh, &op, 1, &shape, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT, "unknown 9");
  REFUSED(ostraka_buffer_distribute(mesh, &kind, NULL, 1, &shape, OSTRAKA_F64, tensors, &result),
          OSTRAKA_INVALID_ARGUMENT, "unknown 7");
  REFUSED(ostraka_buffer_view(fixture.buffer, &kind, &result), OSTRAKA_INVALID_ARGUMENT, "unknown 7");
  REFUSED(ostraka_buffer_redistribute(fixture.buffer, &kind, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "unknown 7");
  REFUSED(ostraka_buffer_create(mesh, NULL, fixture.layout, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT,
          "'placements' is null");
  REFUSED(ostraka_buffer_empty(mesh, NULL, 1, &shape, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT,
          "'placements' is null");
  REFUSED(ostraka_buffer_view(fixture.buffer, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "'placements' is null");
  REFUSED(ostraka_buffer_redistribute(fixture.buffer, NULL, NULL, &result), OSTRAKA_INVALID_ARGUMENT,
          "'placements' is null");
  CHECK(result == NULL);
}

static void shards_before_others(void) {
  const int32_t sizes[] = {1, check_ranks};
  const ostraka_placement_t wrong[] = {shard, replicate}, right[] = {replicate, shard};
  ostraka_mesh_t plane = NULL;
  ostraka_buffer_t buffer = NULL, result = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, sizes, NULL, &plane));
  REFUSED(ostraka_buffer_create(plane, wrong, fixture.layout, OSTRAKA_F64, &buffer), OSTRAKA_INVALID_ARGUMENT,
          "must be a suffix");
  REFUSED(ostraka_buffer_empty(plane, wrong, 1, &shape, OSTRAKA_F64, &buffer), OSTRAKA_INVALID_ARGUMENT,
          "must be a suffix");
  CHECK_OK(ostraka_buffer_empty(plane, right, 1, &shape, OSTRAKA_F64, &buffer));
  int32_t dims = 0;
  CHECK_OK(ostraka_buffer_mesh_dims(buffer, &dims));
  CHECK_INT(dims, 2);
  REFUSED(ostraka_buffer_redistribute(buffer, wrong, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "must be a suffix");
  REFUSED(ostraka_buffer_allgather(buffer, 0, NULL, &result), OSTRAKA_INVALID_ARGUMENT,
          "axis 0 has placement [Replicate], expected [Shard]");
  REFUSED(ostraka_buffer_allgather(buffer, 2, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "axis from 0 to 1, found 2");
  CHECK_OK(ostraka_buffer_allgather(buffer, 1, NULL, &result));
  CHECK_OK(ostraka_buffer_destroy(&result));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
  CHECK_OK(ostraka_mesh_destroy(&plane));
}

static void types_that_do_not_fit(void) {
  const void* const tensors[] = {values};
  const ostraka_mesh_t mesh = fixture.mesh;
  ostraka_buffer_t result = NULL;
  REFUSED(ostraka_buffer_create(mesh, &shard, fixture.layout, 7, &result), OSTRAKA_INVALID_ARGUMENT, "7");
  REFUSED(ostraka_buffer_empty(mesh, &shard, 1, &shape, -1, &result), OSTRAKA_INVALID_ARGUMENT, "-1");
  REFUSED(ostraka_buffer_from_local(mesh, &shard, fixture.layout, 99, values, 1, 0, &result), OSTRAKA_INVALID_ARGUMENT,
          "99");
  REFUSED(ostraka_buffer_distribute(mesh, &shard, NULL, 1, &shape, 99, tensors, &result), OSTRAKA_INVALID_ARGUMENT,
          "99");
  REFUSED(ostraka_buffer_cast(fixture.buffer, 99, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "99");
  REFUSED(ostraka_buffer_empty(mesh, &mean, 1, &shape, OSTRAKA_I32, &result), OSTRAKA_TYPE_MISMATCH, "i32");
  CHECK(result == NULL);
}

static void shapes_and_tensors_that_do_not_fit(void) {
  const void *const tensors[] = {values}, *const nothing[] = {NULL};
  const ostraka_mesh_t mesh = fixture.mesh;
  ostraka_buffer_t result = NULL;
  ostraka_layout_t odd = NULL;
  REFUSED(ostraka_buffer_distribute(mesh, &shard, fixture.layout, 1, &other_shape, OSTRAKA_F64, tensors, &result),
          OSTRAKA_SHAPE_MISMATCH, "built for other shapes");
  REFUSED(ostraka_buffer_distribute(mesh, &shard, NULL, 1, &shape, OSTRAKA_F64, NULL, &result),
          OSTRAKA_INVALID_ARGUMENT, "'tensors' is null");
  REFUSED(ostraka_buffer_distribute(mesh, &replicate, NULL, 1, &shape, OSTRAKA_F64, nothing, &result),
          OSTRAKA_INVALID_ARGUMENT, "address of tensor 0 is null");
  REFUSED(ostraka_buffer_distribute(mesh, &shard, NULL, 0, NULL, OSTRAKA_F64, tensors, &result),
          OSTRAKA_INVALID_ARGUMENT, "at least one tensor");
  REFUSED(ostraka_buffer_distribute(mesh, &shard, NULL, 1, NULL, OSTRAKA_F64, tensors, &result),
          OSTRAKA_INVALID_ARGUMENT, "'shapes' is null");
  REFUSED(ostraka_buffer_empty(mesh, &shard, -1, &shape, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT, "found -1");
  REFUSED(ostraka_buffer_empty(mesh, &shard, 1, NULL, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT,
          "'shapes' is null");
  REFUSED(ostraka_buffer_copy_from(fixture.buffer, 0, values, LENGTH - 1), OSTRAKA_SHAPE_MISMATCH,
          "has 12 elements, found 11");
  REFUSED(ostraka_buffer_copy_from(fixture.buffer, 0, NULL, LENGTH), OSTRAKA_INVALID_ARGUMENT, "null");
  REFUSED(ostraka_buffer_copy_from(fixture.buffer, 1, values, LENGTH), OSTRAKA_INVALID_ARGUMENT, "[0, 1), found 1");
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 1, &shape, 0, NULL, check_ranks + 1, 1, 1, &odd));
  if (check_ranks > 1)
    REFUSED(ostraka_buffer_create(mesh, &shard, odd, OSTRAKA_F64, &result), OSTRAKA_INVALID_ARGUMENT, "a multiple of");
  CHECK_OK(ostraka_layout_destroy(&odd));
  CHECK(result == NULL);
}

static void memory_that_does_not_fit(void) {
  int64_t size = 0;
  CHECK_OK(ostraka_layout_segment_size(fixture.layout, &size)); /* a multiple of 16, so the last rank has padding */
  double* memory = calloc((size_t)size, sizeof *memory);
  const ostraka_mesh_t mesh = fixture.mesh;
  const ostraka_layout_t layout = fixture.layout;
  ostraka_buffer_t result = NULL;
  REFUSED(ostraka_buffer_from_local(mesh, &shard, layout, OSTRAKA_F64, memory, size - 1, 0, &result),
          OSTRAKA_SHAPE_MISMATCH, "the local range of this rank, found 15");
  REFUSED(ostraka_buffer_from_local(mesh, &shard, layout, OSTRAKA_F64, memory, -1, 0, &result), OSTRAKA_SHAPE_MISMATCH,
          "found -1");
  REFUSED(ostraka_buffer_from_local(mesh, &shard, layout, OSTRAKA_F64, NULL, size, 0, &result),
          OSTRAKA_INVALID_ARGUMENT, "address is null");
  memory[size - 1] = 1; /* padding on every rank: the tensor has 12 elements, a segment 16 */
  REFUSED(ostraka_buffer_from_local(mesh, &shard, layout, OSTRAKA_F64, memory, size, 0, &result),
          OSTRAKA_INVALID_ARGUMENT, "is not zero");
  CHECK_NEAR(memory[size - 1], 1, 0); /* refused, hence untouched */
  CHECK_OK(ostraka_buffer_from_local(mesh, &shard, layout, OSTRAKA_F64, memory, size, 1, &result));
  CHECK_NEAR(memory[size - 1], 0, 0);
  REFUSED(ostraka_buffer_release_storage(result), OSTRAKA_INVALID_STATE, "memory of the caller");
  REFUSED(ostraka_buffer_reallocate_storage(result), OSTRAKA_INVALID_STATE, "memory of the caller");
  CHECK_OK(ostraka_buffer_copy_from(result, 0, values, LENGTH));
  CHECK_OK(ostraka_buffer_destroy(&result));
  free(memory);
}

static void transitions_that_do_not_exist(void) {
  const ostraka_buffer_t buffer = fixture.buffer;
  ostraka_buffer_t result = NULL, whole = NULL;
  CHECK_OK(ostraka_buffer_allgather(buffer, 0, NULL, &whole));
  REFUSED(ostraka_buffer_allgather(buffer, 1, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "axis from 0 to 0, found 1");
  REFUSED(ostraka_buffer_reduce_scatter(buffer, -1, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "found -1");
  REFUSED(ostraka_buffer_allreduce(buffer, 1, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "found 1");
  REFUSED(ostraka_buffer_allgather(whole, 0, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "expected [Shard]");
  REFUSED(ostraka_buffer_reduce_scatter(buffer, 0, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "expected [Partial");
  REFUSED(ostraka_buffer_allreduce(whole, 0, NULL, &result), OSTRAKA_INVALID_ARGUMENT, "expected [Partial");
  REFUSED(ostraka_buffer_redistribute(buffer, &sum, NULL, &result), OSTRAKA_NOT_SUPPORTED, "no way from [Shard]");
  if (check_ranks > 1)
    REFUSED(ostraka_buffer_view(buffer, &replicate, &result), OSTRAKA_INVALID_ARGUMENT, "is not contained in");
  CHECK_OK(ostraka_buffer_destroy(&whole));
  CHECK(result == NULL);
}

static void outs_that_do_not_fit(void) {
  const ostraka_mesh_t mesh = fixture.mesh;
  const ostraka_buffer_t buffer = fixture.buffer;
  ostraka_mesh_t another = make_mesh();
  ostraka_buffer_t out = NULL, result = NULL;
  CHECK_OK(ostraka_buffer_create(mesh, &replicate, fixture.layout, OSTRAKA_F32, &out));
  REFUSED(ostraka_buffer_allgather(buffer, 0, out, &result), OSTRAKA_TYPE_MISMATCH, "out holds f32, expected f64");
  CHECK_OK(ostraka_buffer_destroy(&out));
  CHECK_OK(ostraka_buffer_empty(mesh, &replicate, 1, &other_shape, OSTRAKA_F64, &out));
  REFUSED(ostraka_buffer_allgather(buffer, 0, out, &result), OSTRAKA_SHAPE_MISMATCH, "another layout");
  CHECK_OK(ostraka_buffer_destroy(&out));
  CHECK_OK(ostraka_buffer_create(another, &replicate, fixture.layout, OSTRAKA_F64, &out));
  REFUSED(ostraka_buffer_redistribute(buffer, &replicate, out, &result), OSTRAKA_INVALID_ARGUMENT, "another mesh");
  CHECK_OK(ostraka_buffer_destroy(&out));
  REFUSED(ostraka_buffer_allgather(buffer, 0, buffer, &result), OSTRAKA_INVALID_ARGUMENT, "placements [Shard]");
  REFUSED(ostraka_buffer_cast(buffer, OSTRAKA_F32, buffer, &result), OSTRAKA_TYPE_MISMATCH, "expected f32");
  CHECK_OK(ostraka_mesh_destroy(&another));
  CHECK(result == NULL);
}

static void cut_rows(void) {
  ostraka_layout_t layout = NULL;
  ostraka_buffer_t buffer = NULL;
  void* data = NULL;
  int64_t count = 0, first = 0;
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 1, &rows_shape, 0, NULL, 4, 1, 1,
                                &layout)); /* 4 elements per segment, rows of 5 */
  if (check_ranks == 4) {
    CHECK_OK(ostraka_buffer_create(fixture.mesh, &shard, layout, OSTRAKA_F64, &buffer));
    REFUSED(ostraka_buffer_tensor_view(buffer, 0, &data, &count, &first), OSTRAKA_NOT_SUPPORTED, "use tensor_range");
    CHECK_OK(ostraka_buffer_tensor_range(buffer, 0, &data, &count, &first));
    CHECK_INT(count, check_rank == 3 ? 3 : 4);
    CHECK_INT(first, 4 * check_rank);
    CHECK_OK(ostraka_buffer_destroy(&buffer));
  }
  CHECK_OK(ostraka_layout_destroy(&layout));
}

static void null_results(void) {
  const void* const tensors[] = {values};
  const ostraka_mesh_t mesh = fixture.mesh;
  const ostraka_buffer_t buffer = fixture.buffer;
  void* data = NULL;
  int64_t count = 0, offset = 0;
  int64_t size = 0;
  CHECK_OK(ostraka_layout_segment_size(fixture.layout, &size));
  double* memory = calloc((size_t)size, sizeof *memory);
#define NULL_REFUSED(call, argument) REFUSED(call, OSTRAKA_INVALID_ARGUMENT, "'" argument "' is null")
  NULL_REFUSED(ostraka_buffer_create(mesh, &shard, fixture.layout, OSTRAKA_F64, NULL), "buffer");
  NULL_REFUSED(ostraka_buffer_empty(mesh, &shard, 1, &shape, OSTRAKA_F64, NULL), "buffer");
  NULL_REFUSED(ostraka_buffer_from_local(mesh, &shard, fixture.layout, OSTRAKA_F64, memory, size, 1, NULL), "buffer");
  NULL_REFUSED(ostraka_buffer_distribute(mesh, &shard, NULL, 1, &shape, OSTRAKA_F64, tensors, NULL), "buffer");
  NULL_REFUSED(ostraka_buffer_view(buffer, &shard, NULL), "view");
  NULL_REFUSED(ostraka_buffer_cast(buffer, OSTRAKA_F32, NULL, NULL), "result");
  NULL_REFUSED(ostraka_buffer_allgather(buffer, 0, NULL, NULL), "result");
  NULL_REFUSED(ostraka_buffer_reduce_scatter(buffer, 0, NULL, NULL), "result");
  NULL_REFUSED(ostraka_buffer_allreduce(buffer, 0, NULL, NULL), "result");
  NULL_REFUSED(ostraka_buffer_redistribute(buffer, &replicate, NULL, NULL), "result");
  NULL_REFUSED(ostraka_buffer_local(buffer, NULL, &count, &offset), "data");
  NULL_REFUSED(ostraka_buffer_local(buffer, &data, NULL, &offset), "count");
  NULL_REFUSED(ostraka_buffer_local(buffer, &data, &count, NULL), "begin");
  NULL_REFUSED(ostraka_buffer_tensor_view(buffer, 0, NULL, &count, &offset), "data");
  NULL_REFUSED(ostraka_buffer_tensor_view(buffer, 0, &data, NULL, &offset), "num_rows");
  NULL_REFUSED(ostraka_buffer_tensor_view(buffer, 0, &data, &count, NULL), "first_row");
  NULL_REFUSED(ostraka_buffer_tensor_range(buffer, 0, NULL, &count, &offset), "data");
  NULL_REFUSED(ostraka_buffer_tensor_range(buffer, 0, &data, NULL, &offset), "count");
  NULL_REFUSED(ostraka_buffer_tensor_range(buffer, 0, &data, &count, NULL), "offset");
  NULL_REFUSED(ostraka_buffer_layout(buffer, NULL), "layout");
  NULL_REFUSED(ostraka_buffer_num_tensors(buffer, NULL), "num_tensors");
  NULL_REFUSED(ostraka_buffer_tensor_shape(buffer, 0, NULL, &count), "ndim");
  NULL_REFUSED(ostraka_buffer_dtype(buffer, NULL), "dtype");
  NULL_REFUSED(ostraka_buffer_mesh_dims(buffer, NULL), "dims");
  NULL_REFUSED(ostraka_buffer_is_allocated(buffer, NULL), "is_allocated");
  REFUSED(ostraka_buffer_destroy(NULL), OSTRAKA_INVALID_ARGUMENT, "address of the buffer handle is null");
  REFUSED(ostraka_buffer_tensor_range(buffer, -1, &data, &count, &offset), OSTRAKA_INVALID_ARGUMENT, "found -1");
  REFUSED(ostraka_buffer_tensor_view(buffer, 1, &data, &count, &offset), OSTRAKA_INVALID_ARGUMENT, "found 1");
  REFUSED(ostraka_buffer_tensor_shape(buffer, 1, NULL, &count), OSTRAKA_INVALID_ARGUMENT, "found 1");
  free(memory);
}

void buffer_error_suite(void) {
  const void* const tensors[] = {values};
  for (int i = 0; i < LENGTH; ++i)
    values[i] = i;
  fixture.mesh = make_mesh();
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 1, &shape, 0, NULL, check_ranks, 1, 16, &fixture.layout));
  CHECK_OK(ostraka_buffer_distribute(fixture.mesh, &shard, fixture.layout, 1, &shape, OSTRAKA_F64, tensors,
                                     &fixture.buffer));
  placements_that_are_none();
  shards_before_others();
  types_that_do_not_fit();
  shapes_and_tensors_that_do_not_fit();
  memory_that_does_not_fit();
  transitions_that_do_not_exist();
  outs_that_do_not_fit();
  cut_rows();
  null_results();
  CHECK_OK(ostraka_buffer_destroy(&fixture.buffer));
  CHECK_OK(ostraka_layout_destroy(&fixture.layout));
  CHECK_OK(ostraka_mesh_destroy(&fixture.mesh));
}
