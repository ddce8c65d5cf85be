/* SPDX-License-Identifier: Apache-2.0
 *
 * Every reduction of every type, in a layout with unequal segments, and redistributions that mix transitions on a mesh
 * of two axes. Expected values are plain sums and products of small integers, which all types hold exactly.
 */
#include "suites.h"

#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

enum { LENGTH = 11, OPS = 5, MAX_RANKS = 8 };
static const int64_t extents[] = {LENGTH};
static const ostraka_shape_t shape = {1, extents};
static const ostraka_placement_t shard = {OSTRAKA_SHARD, 0}, replicate = {OSTRAKA_REPLICATE, 0};

/* Rank `place` of an axis contributes (place + 1) x value. */
static double value(int64_t index) { return (double)(1 + index % 2); }

static double combine(int32_t op, int count, const double* values) {
  double sum = 0, product = 1, largest = values[0], least = values[0];
  for (int i = 0; i < count; ++i) {
    sum += values[i];
    product *= values[i];
    largest = fmax(largest, values[i]);
    least = fmin(least, values[i]);
  }
  const double results[OPS] = {sum, sum / count, largest, least, product};
  return results[op];
}

/* What one axis of `size` ranks, this one at `place`, makes of its contributions. */
static double along_axis(ostraka_placement_t from, ostraka_placement_t to, int size, int place, const double* values) {
  const int is_reduced = from.kind == OSTRAKA_PARTIAL && to.kind != OSTRAKA_PARTIAL;
  return is_reduced ? combine(from.op, size, values) : values[place];
}

/* Small numbers that 16 bits hold exactly. */
static uint16_t to_16_bits(double number, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  int exponent = 0;
  const double fraction = frexp(number, &exponent); /* in [0.5, 1) */
  if (number == 0)
    return 0;
  const double mantissa = ldexp(2 * fraction - 1, mantissa_bits);
  CHECK(mantissa == floor(mantissa));
  return (uint16_t)(((exponent - 1 + (1 << (exponent_bits - 1)) - 1) << mantissa_bits) + (int)mantissa);
}

static const int64_t width[] = {8, 4, 2, 2, 8, 4, 1};

/* Writes the bytes of an element. */
static void put(void* to, int32_t dtype, double number) {
  const float single = (float)number;
  const int64_t integer = (int64_t)number; /* little-endian: its first bytes are those of the shorter types */
  const uint16_t bf16 = to_16_bits(number, 8), f16 = to_16_bits(number, 5);
  const void* const bytes[] = {&number, &single, &bf16, &f16, &integer, &integer, &integer};
  memcpy(to, bytes[dtype], (size_t)width[dtype]);
}

static void fill(ostraka_buffer_t buffer, int32_t dtype, double factor) {
  unsigned char tensor[LENGTH * 8];
  for (int64_t i = 0; i < LENGTH; ++i)
    put(tensor + i * width[dtype], dtype, factor * value(i));
  CHECK_OK(ostraka_buffer_copy_from(buffer, 0, tensor, LENGTH));
}

/* Compares bytes with the reduced tensor, all of it when `whole`, then destroys the buffer. */
static void check_reduced(ostraka_buffer_t* buffer, int32_t dtype, int32_t op, int whole) {
  void* data = NULL;
  int64_t count = -1, offset = -1;
  CHECK_OK(ostraka_buffer_tensor_range(*buffer, 0, &data, &count, &offset));
  CHECK(!whole || count == LENGTH);
  for (int64_t i = 0; i < count; ++i) {
    unsigned char expected[8];
    double values[MAX_RANKS] = {0};
    for (int rank = 0; rank < check_ranks; ++rank)
      values[rank] = (rank + 1) * value(offset + i);
    put(expected, dtype, combine(op, check_ranks, values));
    if (!CHECK(memcmp((char*)data + i * width[dtype], expected, (size_t)width[dtype]) == 0))
      fprintf(stderr, "  type %d, reduction %d, element %d\n", (int)dtype, (int)op, (int)(offset + i));
  }
  CHECK_OK(ostraka_buffer_destroy(buffer));
}

static void every_reduction_of_every_type(ostraka_mesh_t mesh) {
  ostraka_layout_t ragged = NULL;
  CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 1, &shape, 0, NULL, check_ranks, 1, 1, &ragged));
  for (int32_t dtype = OSTRAKA_F64; dtype <= OSTRAKA_U8; ++dtype)
    for (int32_t op = OSTRAKA_SUM; op < OPS; ++op) {
      const ostraka_placement_t partial = {OSTRAKA_PARTIAL, op};
      ostraka_buffer_t buffer = NULL, result = NULL;
      if (op == OSTRAKA_MEAN && dtype >= OSTRAKA_I64) {
        CHECK_FAILS(ostraka_buffer_create(mesh, &partial, ragged, dtype, &buffer), OSTRAKA_TYPE_MISMATCH,
                    "expected a floating type");
        continue;
      }
      CHECK_OK(ostraka_buffer_create(mesh, &partial, ragged, dtype, &buffer));
      fill(buffer, dtype, check_rank + 1);
      CHECK_OK(ostraka_buffer_allreduce(buffer, 0, NULL, &result));
      check_reduced(&result, dtype, op, 1);
      CHECK_OK(ostraka_buffer_reduce_scatter(buffer, 0, NULL, &result));
      check_reduced(&result, dtype, op, 0);
      CHECK_OK(ostraka_buffer_redistribute(buffer, &replicate, NULL, &result));
      check_reduced(&result, dtype, op, 1);
      CHECK_OK(ostraka_buffer_destroy(&buffer));
    }
  CHECK_OK(ostraka_layout_destroy(&ragged));
}

static void sums_of_bytes_wrap_around(ostraka_mesh_t mesh) {
  const ostraka_placement_t sum = {OSTRAKA_PARTIAL, OSTRAKA_SUM};
  const unsigned char large[LENGTH] = {200, 100, 255};
  ostraka_buffer_t buffer = NULL, result = NULL;
  void* data = NULL;
  int64_t count = 0, offset = 0;
  CHECK_OK(ostraka_buffer_empty(mesh, &sum, 1, &shape, OSTRAKA_U8, &buffer));
  CHECK_OK(ostraka_buffer_copy_from(buffer, 0, large, LENGTH));
  CHECK_OK(ostraka_buffer_allreduce(buffer, 0, NULL, &result));
  CHECK_OK(ostraka_buffer_tensor_range(result, 0, &data, &count, &offset));
  for (int64_t i = 0; i < count; ++i)
    CHECK_INT(((unsigned char*)data)[i], large[i] * check_ranks % 256);
  CHECK_OK(ostraka_buffer_destroy(&result));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
}

/* clang-format off */
#define R {OSTRAKA_REPLICATE, 0}
#define S {OSTRAKA_SHARD, 0}
#define P(op) {OSTRAKA_PARTIAL, OSTRAKA_##op}

/* What one redistribution may do on two axes; `moves` when an axis is gathered or reduced. */
static const struct {
  ostraka_placement_t from[2], to[2];
  int moves;
} mixtures[] = {
    {{S, S}, {R, R}, 1},
    {{S, S}, {R, S}, 1},
    {{R, R}, {S, S}, 0},
    {{R, S}, {S, S}, 0},
    {{R, R}, {P(MIN), S}, 0},
    {{R, S}, {P(MAX), R}, 1},
    {{R, P(MIN)}, {P(MEAN), R}, 1},
    {{P(SUM), R}, {R, S}, 1},
    {{P(MAX), R}, {S, S}, 1},
    {{P(SUM), S}, {R, R}, 1},
    {{P(SUM), S}, {P(SUM), R}, 1},
    {{P(MEAN), S}, {S, S}, 1},
    {{P(SUM), P(MEAN)}, {S, S}, 1},
    {{P(MAX), P(MAX)}, {R, S}, 1},
    {{P(PROD), P(PROD)}, {R, R}, 1},
    {{P(MIN), P(SUM)}, {P(MIN), S}, 1},
};

static const struct {
  ostraka_placement_t from[2], to[2];
  const char* words;
} impossible[] = {
    {{R, S}, {R, P(SUM)}, "axis 1 would go from [Shard] to [Partial(sum)]"},
    {{P(SUM), R}, {P(MAX), R}, "axis 0 would go from [Partial(sum)] to [Partial(max)]"},
    {{R, R}, {R, P(SUM)}, "axis 1 would go from [Replicate] to [Partial(sum)]"},
    {{R, R}, {P(PROD), R}, "axis 0 would go from [Replicate] to [Partial(prod)]"},
    {{P(SUM), P(MAX)}, {R, R}, "axes 0 and 1 reduce by sum and max, whose order matters"},
    {{P(MIN), P(PROD)}, {S, S}, "axes 0 and 1 reduce by min and prod, whose order matters"},
};
/* clang-format on */

/* The result of a mixture for an element of value v: first along the inner axis of each line, then along the outer. */
static double mixed(const ostraka_placement_t* from, const ostraka_placement_t* to, const int32_t* sizes, double v) {
  double lines[MAX_RANKS] = {0};
  for (int outer = 0; outer < sizes[0]; ++outer) {
    double values[MAX_RANKS] = {0};
    for (int inner = 0; inner < sizes[1]; ++inner)
      values[inner] =
          v * (from[0].kind == OSTRAKA_PARTIAL ? outer + 1 : 1) * (from[1].kind == OSTRAKA_PARTIAL ? inner + 1 : 1);
    lines[outer] = along_axis(from[1], to[1], sizes[1], check_rank % sizes[1], values);
  }
  return along_axis(from[0], to[0], sizes[0], check_rank / sizes[1], lines);
}

static const char* local_address(ostraka_buffer_t buffer) {
  void* data = NULL;
  int64_t count = 0, begin = 0;
  CHECK_OK(ostraka_buffer_local(buffer, &data, &count, &begin));
  return data;
}

static void mix(ostraka_mesh_t plane, const int32_t* sizes, int which) {
  const ostraka_placement_t *from = mixtures[which].from, *to = mixtures[which].to;
  const int place[] = {check_rank / sizes[1], check_rank % sizes[1]};
  double given = 1;
  ostraka_buffer_t buffer = NULL, result = NULL;
  void* data = NULL;
  int64_t count = 0, offset = 0;
  for (int axis = 0; axis < 2; ++axis)
    given *= from[axis].kind == OSTRAKA_PARTIAL ? place[axis] + 1 : 1;
  CHECK_OK(ostraka_buffer_empty(plane, from, 1, &shape, OSTRAKA_F64, &buffer));
  fill(buffer, OSTRAKA_F64, given);
  CHECK_OK(ostraka_buffer_redistribute(buffer, to, NULL, &result));
  CHECK_OK(ostraka_buffer_tensor_range(result, 0, &data, &count, &offset));
  CHECK(to[1].kind == OSTRAKA_SHARD || count == LENGTH);
  for (int64_t i = 0; i < count; ++i) {
    const double expected = mixed(from, to, sizes, value(offset + i));
    CHECK_NEAR(((double*)data)[i], expected, 1e-14 * expected);
  }
  if (!mixtures[which].moves) /* shares storage */
    CHECK(local_address(result) >= local_address(buffer) && local_address(result) <= local_address(buffer) + 8 * 64);
  CHECK_OK(ostraka_buffer_destroy(&result));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
}

/* An intermediate of a reduction over both axes is the only scratch, and it is given back. */
static void scratch_is_given_back(ostraka_mesh_t plane, int is_needed) {
  int64_t in_use = -1, peak = -1;
  CHECK_OK(ostraka_mesh_memory(plane, OSTRAKA_MEMORY_TRANSIENT, &in_use, &peak));
  CHECK_INT(in_use, 0);
  CHECK(is_needed ? peak >= 64 : peak == 0);
}

static void mixtures_of_transitions(void) {
  const int32_t inner = check_ranks == 4 ? 2 : check_ranks, sizes[] = {check_ranks / inner, inner};
  ostraka_mesh_t plane = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, sizes, NULL, &plane));
  for (int which = 0; which < (int)(sizeof mixtures / sizeof *mixtures); ++which)
    mix(plane, sizes, which);
  scratch_is_given_back(plane, sizes[0] > 1);
  CHECK_OK(ostraka_mesh_destroy(&plane));
}

static void transitions_without_a_way(void) {
  const int32_t sizes[] = {check_ranks, 1};
  ostraka_mesh_t plane = NULL;
  CHECK_OK(ostraka_mesh_create(MPI_COMM_WORLD, 2, sizes, NULL, &plane));
  for (unsigned i = 0; i < sizeof impossible / sizeof *impossible; ++i) {
    ostraka_buffer_t buffer = NULL, result = NULL;
    CHECK_OK(ostraka_buffer_empty(plane, impossible[i].from, 1, &shape, OSTRAKA_F64, &buffer));
    CHECK_FAILS(ostraka_buffer_redistribute(buffer, impossible[i].to, NULL, &result), OSTRAKA_NOT_SUPPORTED,
                impossible[i].words);
    CHECK(result == NULL);
    CHECK_OK(ostraka_buffer_redistribute(buffer, impossible[i].from, NULL, &result)); /* still usable */
    CHECK_OK(ostraka_buffer_destroy(&result));
    CHECK_OK(ostraka_buffer_destroy(&buffer));
  }
  CHECK_OK(ostraka_mesh_destroy(&plane));
}

static void released_storage_is_refused(ostraka_mesh_t mesh) {
  ostraka_buffer_t buffer = NULL, whole = NULL, result = NULL;
  CHECK_OK(ostraka_buffer_empty(mesh, &shard, 1, &shape, OSTRAKA_F64, &buffer));
  CHECK_OK(ostraka_buffer_empty(mesh, &replicate, 1, &shape, OSTRAKA_F64, &whole));
  const ostraka_buffer_t both[] = {buffer, whole};
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(ostraka_buffer_release_storage(both[i]));
    CHECK_FAILS(ostraka_buffer_redistribute(buffer, &replicate, whole, &result), OSTRAKA_INVALID_STATE,
                i == 0 ? "the storage of [Shard] is released" : "the storage of [Replicate] is released");
    CHECK_OK(ostraka_buffer_reallocate_storage(both[i]));
  }
  CHECK(result == NULL);
  fill(buffer, OSTRAKA_F64, 1);
  CHECK_OK(ostraka_buffer_redistribute(buffer, &replicate, whole, &result));
  CHECK_OK(ostraka_buffer_destroy(&buffer));
  CHECK_OK(ostraka_buffer_destroy(&whole));
  CHECK_NEAR(*(const double*)local_address(result), value(0), 0);
  CHECK_OK(ostraka_buffer_destroy(&result));
}

void reduction_suite(void) {
  ostraka_mesh_t mesh = make_mesh();
  every_reduction_of_every_type(mesh);
  sums_of_bytes_wrap_around(mesh);
  mixtures_of_transitions();
  transitions_without_a_way();
  released_storage_is_refused(mesh);
  CHECK_OK(ostraka_mesh_destroy(&mesh));
}
