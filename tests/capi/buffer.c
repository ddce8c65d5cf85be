/* SPDX-License-Identifier: Apache-2.0
 *
 * buffer.h with right arguments: two f64 tensors on one axis, expected values from their global index.
 */
#include "suites.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { ROWS = 5, COLUMNS = 3, LENGTH = 7 };
static const int64_t matrix_extents[] = {ROWS, COLUMNS}, vector_extents[] = {LENGTH};
static const ostraka_shape_t shapes[] = {{2, matrix_extents}, {1, vector_extents}};
static const int64_t counts[] = {ROWS * COLUMNS, LENGTH};
static const ostraka_placement_t shard = {OSTRAKA_SHARD, 0}, replicate = {OSTRAKA_REPLICATE, 0};
static const ostraka_placement_t sum = {OSTRAKA_PARTIAL, OSTRAKA_SUM}, mean = {OSTRAKA_PARTIAL, OSTRAKA_MEAN};

static double matrix[ROWS * COLUMNS], vector[LENGTH];

static double value(int tensor, int64_t index) { return 100.0 * tensor + (double)index; }

static void fill_tensors(void) {
  for (int64_t i = 0; i < counts[0]; ++i)
    matrix[i] = value(0, i);
  for (int64_t i = 0; i < counts[1]; ++i)
    vector[i] = value(1, i);
}

static ostraka_buffer_t distribute(ostraka_mesh_t mesh, ostraka_layout_t layout) {
  const void* const tensors[] = {matrix, vector};
  ostraka_buffer_t buffer = NULL;
  CHECK_OK(ostraka_buffer_distribute(mesh, &shard, layout, 2, shapes, OSTRAKA_F64, tensors, &buffer));
  return buffer;
}

/* Every element that this rank has is `factor` times its value; all elements are there when `whole`. */
static void check_values(ostraka_buffer_t buffer, double factor, int whole) {
  for (int tensor = 0; tensor < 2; ++tensor) {
    void* data = NULL;
    int64_t count = -1, offset = -1;
    if (!CHECK_OK(ostraka_buffer_tensor_range(buffer, tensor, &data, &count, &offset)))
      continue;
    CHECK(!whole || (count == counts[tensor] && offset == 0));
    for (int64_t i = 0; i < count; ++i)
      CHECK_NEAR(((double*)data)[i], factor * value(tensor, offset + i), 0);
  }
}

/* All elements of all ranks together. */
static void check_and_destroy(ostraka_buffer_t* buffer, double factor, int whole) {
  check_values(*buffer, factor, whole);
  CHECK_OK(ostraka_buffer_destroy(buffer));
  CHECK(*buffer == NULL);
}

static const double* address(ostraka_buffer_t buffer) {
  void* data = NULL;
  int64_t count = 0, begin = 0;
  CHECK_OK(ostraka_buffer_local(buffer, &data, &count, &begin));
  return data;
}

static void pieces_and_queries(ostraka_mesh_t mesh) {
  /* Reference layout: chunks of 3 elements; 24 elements, or 27 on three ranks. The vector starts at 15. */
  const int64_t segment = (check_ranks == 3 ? 27 : 24) / check_ranks, first = check_rank * segment;
  ostraka_buffer_t buffer = distribute(mesh, NULL);
  void* data = NULL;
  int64_t count = -1, begin = -1, rows = -1, first_row = -1;
  CHECK_OK(ostraka_buffer_local(buffer, &data, &count, &begin));
  CHECK_INT(count, segment);
  CHECK_INT(begin, first);
  for (int64_t i = 0; i < count; ++i) /* padding is zero */
    CHECK_NEAR(((double*)data)[i],
               begin + i < 15   ? value(0, begin + i)
               : begin + i < 22 ? value(1, begin + i - 15)
                                : 0.0,
               0);
  CHECK_OK(ostraka_buffer_tensor_view(buffer, 0, &data, &rows, &first_row));
  const int64_t end = first + segment < 15 ? first + segment : 15;
  CHECK_INT(rows, first < 15 ? (end - first) / COLUMNS : 0);
  if (rows > 0) {
    CHECK_INT(first_row, first / COLUMNS);
    CHECK_NEAR(*(double*)data, value(0, first), 0);
  }
  int32_t number = -1, ndim = -1;
  int64_t extents[8] = {0};
  CHECK_OK(ostraka_buffer_num_tensors(buffer, &number));
  CHECK_INT(number, 2);
  CHECK_OK(ostraka_buffer_tensor_shape(buffer, 0, &ndim, extents));
  CHECK(ndim == 2 && extents[0] == ROWS && extents[1] == COLUMNS);
  CHECK_OK(ostraka_buffer_tensor_shape(buffer, 1, &ndim, NULL));
  CHECK_INT(ndim, 1);
  CHECK_OK(ostraka_buffer_dtype(buffer, &number));
  CHECK_INT(number, OSTRAKA_F64);
  CHECK_OK(ostraka_buffer_mesh_dims(buffer, &number));
  CHECK_INT(number, 1);
  /* The layout outlives the buffer. */
  ostraka_layout_t layout = NULL;
  int64_t hash = 0, same = 0, size = 0;
  CHECK_OK(ostraka_buffer_layout(buffer, &layout));
  CHECK_OK(ostraka_layout_hash(layout, &hash));
  CHECK_OK(ostraka_layout_num_tensors(layout, &number));
  CHECK_INT(number, 2);
  ostraka_buffer_t alike = NULL;
  CHECK_OK(ostraka_buffer_create(mesh, &shard, layout, OSTRAKA_F32, &alike));
  CHECK_OK(ostraka_buffer_destroy(&alike));
  check_and_destroy(&buffer, 1, 0);
  CHECK_OK(ostraka_layout_hash(layout, &same));
  CHECK_OK(ostraka_layout_size(layout, &size));
  CHECK(same == hash && size >= 22);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

static void create_and_fill(ostraka_mesh_t mesh, ostraka_layout_t layout) {
  ostraka_buffer_t buffer = NULL;
  CHECK_OK(ostraka_buffer_create(mesh, &shard, layout, OSTRAKA_F64, &buffer));
  check_values(buffer, 0, 0);
  CHECK_OK(ostraka_buffer_copy_from(buffer, 0, matrix, counts[0]));
  CHECK_OK(ostraka_buffer_copy_from(buffer, 1, vector, counts[1]));
  check_and_destroy(&buffer, 1, 0);

  CHECK_OK(ostraka_buffer_empty(mesh, &replicate, 2, shapes, OSTRAKA_F64, &buffer));
  check_values(buffer, 0, 1);
  CHECK_OK(ostraka_buffer_copy_from(buffer, 0, matrix, counts[0]));
  CHECK_OK(ostraka_buffer_copy_from(buffer, 1, vector, counts[1]));
  check_and_destroy(&buffer, 1, 1);
}

static void wrap_memory_of_the_caller(ostraka_mesh_t mesh, ostraka_layout_t layout) {
  int64_t size = 0;
  CHECK_OK(ostraka_layout_segment_size(layout, &size));
  double* memory = malloc((size_t)(size + 1) * sizeof *memory);
  for (int64_t i = 0; i < size; ++i)
    memory[i] = NAN;
  ostraka_buffer_t buffer = NULL, whole = NULL;
  CHECK_OK(ostraka_buffer_from_local(mesh, &shard, layout, OSTRAKA_F64, memory, size, 1, &buffer));
  CHECK(address(buffer) == memory);
  CHECK_OK(ostraka_buffer_copy_from(buffer, 0, matrix, counts[0]));
  CHECK_OK(ostraka_buffer_copy_from(buffer, 1, vector, counts[1]));
  for (int64_t i = 0; i < size; ++i)
    CHECK(!isnan(memory[i])); /* padding was cleared, tensors were copied */
  CHECK_OK(ostraka_buffer_allgather(buffer, 0, NULL, &whole));
  check_and_destroy(&whole, 1, 1);
  CHECK_OK(ostraka_buffer_destroy(&buffer));

  /* Clean padding is accepted as it is. */
  CHECK_OK(ostraka_buffer_from_local(mesh, &shard, layout, OSTRAKA_F64, memory, size, 0, &buffer));
  check_and_destroy(&buffer, 1, 0);
  free(memory);
}

static void collectives(ostraka_mesh_t mesh) {
  const double n = check_ranks;
  ostraka_buffer_t sharded = distribute(mesh, NULL), whole = NULL, partial = NULL, result = NULL;
  CHECK_OK(ostraka_buffer_allgather(sharded, 0, NULL, &whole));
  check_values(whole, 1, 1);

  /* Every rank contributes the same: the sum is n times the value, the mean is the value. */
  const ostraka_placement_t* ops[] = {&sum, &mean};
  for (int op = 0; op < 2; ++op) {
    const double factor = op == 0 ? n : 1;
    CHECK_OK(ostraka_buffer_view(whole, ops[op], &partial));
    CHECK(address(partial) == address(whole)); /* shares storage */
    CHECK_OK(ostraka_buffer_reduce_scatter(partial, 0, NULL, &result));
    check_and_destroy(&result, factor, 0);
    CHECK_OK(ostraka_buffer_allreduce(partial, 0, NULL, &result));
    check_and_destroy(&result, factor, 1);
    CHECK_OK(ostraka_buffer_redistribute(partial, &shard, NULL, &result));
    check_and_destroy(&result, factor, 0);
    CHECK_OK(ostraka_buffer_destroy(&partial));
  }

  CHECK_OK(ostraka_buffer_redistribute(sharded, &replicate, NULL, &result));
  check_and_destroy(&result, 1, 1);
  CHECK_OK(ostraka_buffer_redistribute(whole, &shard, NULL, &result));
  const double* from = address(whole);
  CHECK(address(result) >= from && address(result) <= from + 27); /* shares storage */
  check_and_destroy(&result, 1, 0);
  CHECK_OK(ostraka_buffer_redistribute(sharded, &shard, NULL, &result));
  CHECK(address(result) == address(sharded));
  CHECK_OK(ostraka_buffer_destroy(&result));
  CHECK_OK(ostraka_buffer_destroy(&whole));
  CHECK_OK(ostraka_buffer_destroy(&sharded));
}

/* The result is another handle on the storage of `out`. */
static void results_in_out(ostraka_mesh_t mesh) {
  ostraka_buffer_t sharded = distribute(mesh, NULL), whole = NULL, partial = NULL, again = NULL, result = NULL;
  CHECK_OK(ostraka_buffer_empty(mesh, &replicate, 2, shapes, OSTRAKA_F64, &whole));
  CHECK_OK(ostraka_buffer_empty(mesh, &shard, 2, shapes, OSTRAKA_F64, &again));
  CHECK_OK(ostraka_buffer_allgather(sharded, 0, whole, &result));
  CHECK(address(result) == address(whole));
  CHECK_OK(ostraka_buffer_destroy(&result));
  check_values(whole, 1, 1);
  CHECK_OK(ostraka_buffer_redistribute(whole, &shard, again, &result));
  CHECK(address(result) == address(again));
  CHECK_OK(ostraka_buffer_destroy(&result));
  check_values(again, 1, 0);
  CHECK_OK(ostraka_buffer_view(whole, &sum, &partial));
  CHECK_OK(ostraka_buffer_reduce_scatter(partial, 0, again, &result));
  check_and_destroy(&result, check_ranks, 0);
  check_values(again, check_ranks, 0);
  CHECK_OK(ostraka_buffer_cast(sharded, OSTRAKA_F64, again, &result)); /* a copy */
  CHECK_OK(ostraka_buffer_destroy(&result));
  check_values(again, 1, 0);
  ostraka_buffer_t* const all[] = {&partial, &again, &whole, &sharded};
  for (int i = 0; i < 4; ++i)
    CHECK_OK(ostraka_buffer_destroy(all[i]));
}

/* Towards zero; values out of range become the nearest limit, NaN becomes 0. */
static void casts_to_integers(ostraka_buffer_t sharded) {
  ostraka_buffer_t numbers = NULL, integers = NULL, bytes = NULL;
  void* data = NULL;
  int64_t count = 0, begin = 0;
  CHECK_OK(ostraka_buffer_cast(sharded, OSTRAKA_F32, NULL, &numbers));
  CHECK_OK(ostraka_buffer_local(numbers, &data, &count, &begin));
  const float given[] = {-1.75f, 300.5f, 1e30f, NAN};
  const int64_t expected[] = {-1, 300, INT64_MAX, 0};
  const uint8_t expected_bytes[] = {0, 255, 255, 0};
  memcpy(data, given, sizeof given); /* every rank holds six elements or more */
  CHECK_OK(ostraka_buffer_cast(numbers, OSTRAKA_I64, NULL, &integers));
  CHECK_OK(ostraka_buffer_local(integers, &data, &count, &begin));
  CHECK(memcmp(data, expected, sizeof expected) == 0);
  CHECK_OK(ostraka_buffer_cast(integers, OSTRAKA_U8, NULL, &bytes));
  CHECK_OK(ostraka_buffer_local(bytes, &data, &count, &begin));
  CHECK(memcmp(data, expected_bytes, sizeof expected_bytes) == 0);
  ostraka_buffer_t* const all[] = {&bytes, &integers, &numbers};
  for (int i = 0; i < 3; ++i)
    CHECK_OK(ostraka_buffer_destroy(all[i]));
}

static void casts(ostraka_mesh_t mesh) {
  ostraka_buffer_t sharded = distribute(mesh, NULL), single = NULL, back = NULL;
  int32_t dtype = -1;
  CHECK_OK(ostraka_buffer_cast(sharded, OSTRAKA_F32, NULL, &single));
  CHECK_OK(ostraka_buffer_dtype(single, &dtype));
  CHECK_INT(dtype, OSTRAKA_F32);
  CHECK_OK(ostraka_buffer_cast(single, OSTRAKA_F64, NULL, &back)); /* small integers survive */
  check_and_destroy(&back, 1, 0);
  CHECK_OK(ostraka_buffer_destroy(&single));
  casts_to_integers(sharded);
  CHECK_OK(ostraka_buffer_cast(sharded, OSTRAKA_F64, NULL, &back));
  CHECK(address(back) == address(sharded)); /* the same type shares storage */
  CHECK_OK(ostraka_buffer_destroy(&sharded));
  check_and_destroy(&back, 1, 0); /* storage lives as long as one handle */
}

static void storage_comes_and_goes(ostraka_mesh_t mesh) {
  ostraka_buffer_t sharded = distribute(mesh, NULL), view = NULL;
  int32_t allocated = -1;
  CHECK_OK(ostraka_buffer_view(sharded, &shard, &view));
  CHECK_OK(ostraka_buffer_is_allocated(view, &allocated));
  CHECK_INT(allocated, 1);
  CHECK_OK(ostraka_buffer_release_storage(sharded));
  CHECK_OK(ostraka_buffer_release_storage(sharded)); /* released already */
  CHECK_OK(ostraka_buffer_is_allocated(view, &allocated));
  CHECK_INT(allocated, 0);
  void* data = NULL;
  int64_t count = 0, begin = 0;
  CHECK_FAILS(ostraka_buffer_local(view, &data, &count, &begin), OSTRAKA_INVALID_STATE, "reallocate_storage");
  CHECK_OK(ostraka_buffer_reallocate_storage(sharded));
  CHECK_OK(ostraka_buffer_is_allocated(view, &allocated));
  CHECK_INT(allocated, 1);
  CHECK_OK(ostraka_buffer_copy_from(view, 0, matrix, counts[0]));
  CHECK_OK(ostraka_buffer_copy_from(view, 1, vector, counts[1]));
  check_and_destroy(&sharded, 1, 0);
  check_and_destroy(&view, 1, 0);
}

/* Buffers keep their mesh and layout. */
static void owners_may_go_first(void) {
  ostraka_mesh_t mesh = make_mesh();
  ostraka_layout_t layout = NULL;
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 0, NULL, check_ranks, 1, 1, &layout));
  ostraka_buffer_t sharded = distribute(mesh, layout), whole = NULL;
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
  CHECK_OK(ostraka_buffer_allgather(sharded, 0, NULL, &whole));
  check_and_destroy(&sharded, 1, 0);
  check_and_destroy(&whole, 1, 1);
}

/* A call that fails for want of a place for its result keeps no buffer. */
static void a_null_result_leaves_nothing_behind(ostraka_mesh_t mesh) {
  const int64_t extents[] = {INT64_C(1) << 21}; /* 16 MiB on one rank */
  const ostraka_shape_t shape = {1, extents};
  struct rusage before, after;
  getrusage(RUSAGE_SELF, &before);
  for (int i = 0; i < 16; ++i)
    CHECK_FAILS(ostraka_buffer_empty(mesh, &replicate, 1, &shape, OSTRAKA_F64, NULL), OSTRAKA_INVALID_ARGUMENT,
                "'buffer' is null");
  getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 128 * 1024); /* KiB */
}

void buffer_suite(void) {
  fill_tensors();
  ostraka_mesh_t mesh = make_mesh();
  ostraka_layout_t layout = NULL;
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 0, NULL, check_ranks, 8, 4, &layout));
  pieces_and_queries(mesh);
  create_and_fill(mesh, layout);
  wrap_memory_of_the_caller(mesh, layout);
  collectives(mesh);
  results_in_out(mesh);
  casts(mesh);
  storage_comes_and_goes(mesh);
  owners_may_go_first();
  a_null_result_leaves_nothing_behind(mesh);
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
