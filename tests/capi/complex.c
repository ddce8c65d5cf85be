/* SPDX-License-Identifier: Apache-2.0
 *
 * Complex numbers as pairs: an extra last dimension of 2, and the atom that keeps pairs whole.
 */
#include "suites.h"

#include <complex.h>

enum { ROWS = 3, COLUMNS = 5, LENGTH = 3, TENSORS = 3 };
static const ostraka_shape_t shapes[TENSORS] = {
    {3, (const int64_t[]){ROWS, COLUMNS, 2}}, MATRIX(LENGTH, 2), MATRIX(1, 2)}; /* a matrix, a vector, one number */
static const int64_t counts[TENSORS] = {ROWS * COLUMNS, LENGTH, 1};
static const ostraka_atom_t pairs = {OSTRAKA_ATOM_LAST_DIMS, 1};
static const ostraka_placement_t shard = {OSTRAKA_SHARD, 0}, replicate = {OSTRAKA_REPLICATE, 0};

static double complex value(int tensor, int64_t index) {
  return 10 * tensor + (double)index - (1 + 2 * (double)index) * I;
}

/* Fills every tensor with factor x value in f64 or f32. */
static void fill(ostraka_buffer_t buffer, int32_t dtype, double complex factor) {
  for (int tensor = 0; tensor < TENSORS; ++tensor) {
    double complex numbers[ROWS * COLUMNS];
    float complex singles[ROWS * COLUMNS];
    for (int64_t i = 0; i < counts[tensor]; ++i) {
      numbers[i] = factor * value(tensor, i);
      singles[i] = (float complex)numbers[i];
    }
    const void* const data = dtype == OSTRAKA_F64 ? (const void*)numbers : (const void*)singles;
    CHECK_OK(ostraka_buffer_copy_from(buffer, tensor, data, 2 * counts[tensor])); /* in real numbers */
  }
}

/* What this rank has is whole pairs of factor x value; then destroys the buffer. */
static void check_and_destroy(ostraka_buffer_t* buffer, int32_t dtype, double complex factor, int whole) {
  for (int tensor = 0; tensor < TENSORS; ++tensor) {
    void* data = NULL;
    int64_t count = -1, offset = -1;
    CHECK_OK(ostraka_buffer_tensor_range(*buffer, tensor, &data, &count, &offset));
    CHECK(count % 2 == 0 && (count == 0 || offset % 2 == 0));
    CHECK(!whole || count == 2 * counts[tensor]);
    for (int64_t i = 0; i < count / 2; ++i) {
      const double complex found =
          dtype == OSTRAKA_F64 ? ((double complex*)data)[i] : (double complex)((float complex*)data)[i];
      const double complex expected = factor * value(tensor, offset / 2 + i);
      CHECK_NEAR(creal(found), creal(expected), 1e-13 * cabs(expected));
      CHECK_NEAR(cimag(found), cimag(expected), 1e-13 * cabs(expected));
    }
  }
  CHECK_OK(ostraka_buffer_destroy(buffer));
}

static void shards_hold_whole_numbers(ostraka_mesh_t mesh, ostraka_layout_t layout, int32_t dtype) {
  ostraka_buffer_t buffer = NULL, whole = NULL;
  if (layout != NULL)
    CHECK_OK(ostraka_buffer_create(mesh, &shard, layout, dtype, &buffer));
  else
    CHECK_OK(ostraka_buffer_empty(mesh, &shard, TENSORS, shapes, dtype, &buffer));
  fill(buffer, dtype, 1);
  CHECK_OK(ostraka_buffer_allgather(buffer, 0, NULL, &whole));
  check_and_destroy(&whole, dtype, 1, 1);
  check_and_destroy(&buffer, dtype, 1, 0);
}

/* Every rank contributes its own multiple, turned by i. */
static void sums_and_means(ostraka_mesh_t mesh, ostraka_layout_t layout, int32_t dtype) {
  for (int32_t op = OSTRAKA_SUM; op <= OSTRAKA_MEAN; ++op) {
    const ostraka_placement_t partial = {OSTRAKA_PARTIAL, op};
    const double n = check_ranks;
    const double complex factor = (op == OSTRAKA_SUM ? n * (n + 1) / 2 : (n + 1) / 2) * I;
    ostraka_buffer_t buffer = NULL, result = NULL;
    CHECK_OK(ostraka_buffer_create(mesh, &partial, layout, dtype, &buffer));
    fill(buffer, dtype, (check_rank + 1) * I);
    CHECK_OK(ostraka_buffer_allreduce(buffer, 0, NULL, &result));
    check_and_destroy(&result, dtype, factor, 1);
    CHECK_OK(ostraka_buffer_redistribute(buffer, &shard, NULL, &result));
    check_and_destroy(&result, dtype, factor, 0);
    CHECK_OK(ostraka_buffer_destroy(&buffer));
  }
}

static void distributed(ostraka_mesh_t mesh, ostraka_layout_t layout) {
  double complex all[TENSORS][ROWS * COLUMNS];
  for (int tensor = 0; tensor < TENSORS; ++tensor)
    for (int64_t i = 0; i < counts[tensor]; ++i)
      all[tensor][i] = value(tensor, i);
  const void* const tensors[] = {all[0], all[1], all[2]};
  ostraka_buffer_t buffer = NULL, whole = NULL;
  CHECK_OK(ostraka_buffer_distribute(mesh, &shard, layout, TENSORS, shapes, OSTRAKA_F64, tensors, &buffer));
  CHECK_OK(ostraka_buffer_redistribute(buffer, &replicate, NULL, &whole));
  check_and_destroy(&whole, OSTRAKA_F64, 1, 1);
  check_and_destroy(&buffer, OSTRAKA_F64, 1, 0);
}

void complex_suite(void) {
  const int32_t policies[] = {OSTRAKA_PLANNED, OSTRAKA_RAGGED};
  const int32_t dtypes[] = {OSTRAKA_F64, OSTRAKA_F32};
  ostraka_mesh_t mesh = make_mesh();
  for (int i = 0; i < 2; ++i) {
    ostraka_layout_t layout = NULL;
    CHECK_OK(ostraka_layout_build(policies[i], TENSORS, shapes, 1, &pairs, check_ranks, 1, 1, &layout));
    for (int type = 0; type < 2; ++type) {
      shards_hold_whole_numbers(mesh, layout, dtypes[type]);
      shards_hold_whole_numbers(mesh, NULL, dtypes[type]);
      sums_and_means(mesh, layout, dtypes[type]);
    }
    distributed(mesh, layout);
    CHECK_OK(ostraka_layout_destroy(&layout));
  }
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
