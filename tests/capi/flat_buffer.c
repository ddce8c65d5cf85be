/* SPDX-License-Identifier: Apache-2.0
 *
 * flat_buffer.h: tensors of 6, 1, 0 and 7 elements one after the other.
 */
#include "suites.h"

#include <mpi.h>
#include <string.h>

enum { TENSORS = 4, TOTAL = 14 };
static const ostraka_shape_t shapes[TENSORS] = {MATRIX(3, 2), {0, NULL}, MATRIX(2, 0), VECTOR(7)};
static const int64_t counts[TENSORS] = {6, 1, 0, 7}, offsets[TENSORS] = {0, 6, 7, 7};

static int64_t shard_of(int ranks) { return (TOTAL + ranks - 1) / ranks; }

static char* whole(ostraka_flat_buffer_t buffer, int64_t expected) {
  void* data = NULL;
  int64_t count = -1;
  CHECK_OK(ostraka_flat_buffer_data(buffer, &data, &count));
  CHECK_INT(count, expected);
  return data;
}

/* The shard lies at its place inside the whole. */
static char* shard(ostraka_flat_buffer_t buffer, int ranks, int place, int64_t width) {
  void* data = NULL;
  int64_t count = -1;
  CHECK_OK(ostraka_flat_buffer_local_shard(buffer, &data, &count));
  CHECK_INT(count, shard_of(ranks));
  CHECK((char*)data == whole(buffer, ranks * count) + place * count * width);
  return data;
}

static void check_tensors(ostraka_flat_buffer_t buffer, int32_t dtype, int64_t width) {
  const char* begin = whole(buffer, check_ranks * shard_of(check_ranks));
  int32_t number = -1, ndim = -1;
  int64_t extents[8] = {-1, -1}, count = -1;
  CHECK_OK(ostraka_flat_buffer_num_tensors(buffer, &number));
  CHECK_INT(number, TENSORS);
  CHECK_OK(ostraka_flat_buffer_dtype(buffer, &number));
  CHECK_INT(number, dtype);
  for (int32_t i = 0; i < TENSORS; ++i) {
    void* data = NULL;
    CHECK_OK(ostraka_flat_buffer_view(buffer, i, &data, &count));
    CHECK_INT(count, counts[i]);
    CHECK((char*)data == begin + offsets[i] * width);
  }
  CHECK_OK(ostraka_flat_buffer_tensor_shape(buffer, 0, &ndim, extents));
  CHECK(ndim == 2 && extents[0] == 3 && extents[1] == 2);
  CHECK_OK(ostraka_flat_buffer_tensor_shape(buffer, 1, &ndim, NULL));
  CHECK_INT(ndim, 0);
}

/* Memory that was used before: what a new buffer holds is zero by itself. */
static void leave_garbage(ostraka_mesh_t mesh) {
  const ostraka_placement_t replicate = {OSTRAKA_REPLICATE, 0};
  const ostraka_shape_t large = VECTOR(64);
  ostraka_buffer_t buffer = NULL;
  void* data = NULL;
  int64_t count = 0, begin = 0;
  CHECK_OK(ostraka_buffer_empty(mesh, &replicate, 1, &large, OSTRAKA_F64, &buffer));
  CHECK_OK(ostraka_buffer_local(buffer, &data, &count, &begin));
  memset(data, 0xff, (size_t)count * sizeof(double));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
}

static void doubles(ostraka_mesh_t mesh) {
  const double n = check_ranks, factors = n * (n + 1) / 2;
  const int64_t each = shard_of(check_ranks), padded = each * check_ranks;
  ostraka_flat_buffer_t buffer = NULL;
  leave_garbage(mesh);
  CHECK_OK(ostraka_flat_buffer_create(mesh, 0, TENSORS, shapes, OSTRAKA_F64, &buffer));
  double* all = (double*)whole(buffer, padded);
  for (int64_t i = 0; i < padded; ++i)
    CHECK_NEAR(all[i], 0, 0);
  check_tensors(buffer, OSTRAKA_F64, sizeof(double));
  double* own = (double*)shard(buffer, check_ranks, check_rank, sizeof(double));

  for (int64_t i = 0; i < TOTAL; ++i)
    all[i] = (check_rank + 1) * (double)(i + 1);
  CHECK_OK(ostraka_flat_buffer_reduce_scatter(buffer));
  for (int64_t i = 0; i < each; ++i) {
    const int64_t k = check_rank * each + i;
    CHECK_NEAR(own[i], k < TOTAL ? factors * (double)(k + 1) : 0, 0);
  }
  CHECK_OK(ostraka_flat_buffer_all_gather(buffer));
  for (int64_t k = 0; k < padded; ++k)
    CHECK_NEAR(all[k], k < TOTAL ? factors * (double)(k + 1) : 0, 0);
  CHECK_OK(ostraka_flat_buffer_destroy(&buffer));
  CHECK(buffer == NULL);
}

/* 1 + 2^-8 needs 9 bits: summed in f32 and rounded once, not rank by rank. */
static void bf16_is_rounded_once(ostraka_mesh_t mesh) {
  const ostraka_shape_t one = VECTOR(1);
  const uint16_t unit = 0x3f80, small = 0x3b80;                    /* 1 and 2^-8 */
  const uint16_t expected[] = {0, 0x3f80, 0x3f80, 0x3f81, 0x3f82}; /* of 1 + (n - 1) 2^-8: ties to even at n = 2, 4 */
  ostraka_flat_buffer_t buffer = NULL;
  CHECK_OK(ostraka_flat_buffer_create(mesh, 0, 1, &one, OSTRAKA_BF16, &buffer));
  uint16_t* all = (uint16_t*)whole(buffer, check_ranks);
  all[0] = check_rank == 0 ? unit : small;
  CHECK_OK(ostraka_flat_buffer_reduce_scatter(buffer));
  CHECK_OK(ostraka_flat_buffer_all_gather(buffer));
  CHECK_INT(all[0], expected[check_ranks]);
  CHECK_OK(ostraka_flat_buffer_destroy(&buffer));
}

/* Along each axis of a plane, the sums are those of that axis. */
static void one_axis_of_two(void) {
  const int32_t inner = check_ranks == 4 ? 2 : check_ranks, sizes[] = {check_ranks / inner, inner};
  const int place[] = {check_rank / inner, check_rank % inner};
  ostraka_mesh_t plane = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, sizes, NULL, &plane));
  for (int32_t axis = 0; axis < 2; ++axis) {
    ostraka_flat_buffer_t buffer = NULL;
    CHECK_OK(ostraka_flat_buffer_create(plane, axis, TENSORS, shapes, OSTRAKA_I32, &buffer));
    const int64_t each = shard_of(sizes[axis]);
    int32_t* all = (int32_t*)whole(buffer, each * sizes[axis]);
    const int32_t* own = (int32_t*)shard(buffer, sizes[axis], place[axis], sizeof(int32_t));
    for (int32_t i = 0; i < TOTAL; ++i)
      all[i] = 1000 * (check_rank + 1) + i;
    CHECK_OK(ostraka_flat_buffer_reduce_scatter(buffer));
    int32_t ranks = 0;
    for (int i = 0; i < sizes[axis]; ++i)
      ranks += 1 + (axis == 0 ? i * inner + place[1] : place[0] * inner + i);
    for (int64_t i = 0; i < each && place[axis] * each + i < TOTAL; ++i)
      CHECK_INT(own[i], 1000 * ranks + sizes[axis] * (place[axis] * each + i));
    CHECK_OK(ostraka_flat_buffer_destroy(&buffer));
  }
  CHECK_OK(ostraka_mesh_destroy(&plane));
}

static void nothing_in_it(ostraka_mesh_t mesh) {
  ostraka_flat_buffer_t buffer = NULL;
  CHECK_OK(ostraka_flat_buffer_create(mesh, 0, 0, NULL, OSTRAKA_F32, &buffer));
  whole(buffer, 0);
  CHECK_OK(ostraka_flat_buffer_reduce_scatter(buffer));
  CHECK_OK(ostraka_flat_buffer_all_gather(buffer));
  CHECK_OK(ostraka_flat_buffer_destroy(&buffer));
}

/* The buffer keeps its mesh. */
static void the_mesh_may_go_first(void) {
  ostraka_mesh_t mesh = make_mesh();
  ostraka_flat_buffer_t buffer = NULL;
  CHECK_OK(ostraka_flat_buffer_create(mesh, 0, TENSORS, shapes, OSTRAKA_F64, &buffer));
  CHECK_OK(ostraka_mesh_destroy(&mesh));
  double* own = (double*)shard(buffer, check_ranks, check_rank, sizeof(double));
  own[0] = check_rank + 1;
  CHECK_OK(ostraka_flat_buffer_all_gather(buffer));
  const double* all = (double*)whole(buffer, check_ranks * shard_of(check_ranks));
  for (int rank = 0; rank < check_ranks; ++rank)
    CHECK_NEAR(all[rank * shard_of(check_ranks)], rank + 1, 0);
  CHECK_OK(ostraka_flat_buffer_destroy(&buffer));
}

static void creation_errors(ostraka_mesh_t mesh) {
  const ostraka_shape_t negative = MATRIX(3, -1), nine = {9, (const int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}};
  ostraka_flat_buffer_t buffer = NULL;
#define CREATE_REFUSED(axis, count, shapes, dtype, result, words)                                                      \
  CHECK_FAILS(ostraka_flat_buffer_create(mesh, axis, count, shapes, dtype, result), OSTRAKA_INVALID_ARGUMENT, words)
  CREATE_REFUSED(1, TENSORS, shapes, OSTRAKA_F64, &buffer, "expected an axis from 0 to 0, found 1");
  CREATE_REFUSED(-1, TENSORS, shapes, OSTRAKA_F64, &buffer, "found -1");
  CREATE_REFUSED(0, -2, shapes, OSTRAKA_F64, &buffer, "number of tensors >= 0, found -2");
  CREATE_REFUSED(0, 1, NULL, OSTRAKA_F64, &buffer, "'shapes' is null");
  CREATE_REFUSED(0, 1, &negative, OSTRAKA_F64, &buffer, "expected extents >= 0, found -1");
  CREATE_REFUSED(0, 1, &nine, OSTRAKA_F64, &buffer, "a shape has 9 dimensions");
  CREATE_REFUSED(0, TENSORS, shapes, 7, &buffer, "7");
  CREATE_REFUSED(0, TENSORS, shapes, OSTRAKA_F64, NULL, "'buffer' is null");
  CHECK(buffer == NULL);
}

#define REFUSED(call, words)                                                                                           \
  do {                                                                                                                 \
    CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, words);                                                                \
    check_tensors(buffer, OSTRAKA_F32, sizeof(float));                                                                 \
  } while (0)

static void queries_refuse_and_stay_usable(ostraka_mesh_t mesh) {
  ostraka_flat_buffer_t buffer = NULL;
  void* data = NULL;
  int64_t count = 0;
  int32_t ndim = 0;
  CHECK_OK(ostraka_flat_buffer_create(mesh, 0, TENSORS, shapes, OSTRAKA_F32, &buffer));
  REFUSED(ostraka_flat_buffer_view(buffer, TENSORS, &data, &count), "expected a tensor in [0, 4), found 4");
  REFUSED(ostraka_flat_buffer_view(buffer, -1, &data, &count), "found -1");
  REFUSED(ostraka_flat_buffer_view(buffer, 0, NULL, &count), "'data' is null");
  REFUSED(ostraka_flat_buffer_view(buffer, 0, &data, NULL), "'count' is null");
  REFUSED(ostraka_flat_buffer_tensor_shape(buffer, TENSORS, &ndim, NULL), "expected a tensor in [0, 4), found 4");
  REFUSED(ostraka_flat_buffer_tensor_shape(buffer, 0, NULL, &count), "'ndim' is null");
  REFUSED(ostraka_flat_buffer_num_tensors(buffer, NULL), "'num_tensors' is null");
  REFUSED(ostraka_flat_buffer_dtype(buffer, NULL), "'dtype' is null");
  REFUSED(ostraka_flat_buffer_local_shard(buffer, NULL, &count), "'data' is null");
  REFUSED(ostraka_flat_buffer_local_shard(buffer, &data, NULL), "'count' is null");
  REFUSED(ostraka_flat_buffer_data(buffer, NULL, &count), "'data' is null");
  REFUSED(ostraka_flat_buffer_data(buffer, &data, NULL), "'count' is null");
  REFUSED(ostraka_flat_buffer_destroy(NULL), "address of the flat buffer handle is null");
  CHECK_OK(ostraka_flat_buffer_destroy(&buffer));
}

void flat_buffer_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  doubles(mesh);
  bf16_is_rounded_once(mesh);
  one_axis_of_two();
  nothing_in_it(mesh);
  the_mesh_may_go_first();
  creation_errors(mesh);
  queries_refuse_and_stay_usable(mesh);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
