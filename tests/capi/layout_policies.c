/* SPDX-License-Identifier: Apache-2.0
 *
 * What each policy makes of known sets of tensors: offsets and cuts of spec 1.4.6, 1.5 and 1.6, and of known cases.
 */
#include "suites.h"

#include <stddef.h>
#include <string.h>

/* clang-format off */
#define ROW {OSTRAKA_ATOM_ROW, 0}
#define BLOCK(rows) {OSTRAKA_ATOM_BLOCK, rows}
/* clang-format on */
#define BILLION INT64_C(1000000000)

typedef struct {
  int32_t policy, num_tensors;
  ostraka_shape_t shapes[5];
  int32_t num_atoms;
  ostraka_atom_t atoms[2];
  int32_t segments;
  int64_t offsets[5], cuts[6]; /* segments + 1 cuts */
} expected_t;

static const expected_t table[] = {
    /* Reference: rows, blocks; 48 elements and a block of 32 rows that nobody gets. */
    {OSTRAKA_REFERENCE, 3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 0, {ROW}, 4, {0, 15, 27}, {0, 9, 18, 27, 36}},
    {OSTRAKA_REFERENCE, 3, {MATRIX(5, 4), MATRIX(2, 6), VECTOR(3)}, 1, {ROW}, 2, {0, 24, 20}, {0, 24, 48}},
    {OSTRAKA_REFERENCE,
     5,
     {MATRIX(2, 6), MATRIX(4, 4), MATRIX(4, 4), MATRIX(1, 2), MATRIX(1, 6)},
     0,
     {ROW},
     5,
     {0, 12, 32, 28, 48},
     {0, 12, 24, 36, 48, 60}},
    {OSTRAKA_REFERENCE, 2, {MATRIX(4, 6), MATRIX(8, 4)}, 1, {BLOCK(2)}, 2, {0, 24}, {0, 48, 96}},
    {OSTRAKA_REFERENCE, 2, {MATRIX(4, 6), MATRIX(8, 4)}, 2, {BLOCK(2), BLOCK(2)}, 2, {0, 24}, {0, 48, 96}},
    {OSTRAKA_REFERENCE, 2, {MATRIX(128, 64), MATRIX(32, 128)}, 1, {BLOCK(32)}, 2, {0, 8192}, {0, 8192, 16384}},
    {OSTRAKA_REFERENCE, 1, {MATRIX(64, 64)}, 1, {BLOCK(32)}, 3, {0}, {0, 2048, 4096, 6144}},
    /* Ragged. */
    {OSTRAKA_RAGGED, 3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 1, {ROW}, 4, {0, 15, 27}, {0, 9, 18, 27, 34}},
    {OSTRAKA_RAGGED, 3, {MATRIX(5, 4), MATRIX(2, 6), VECTOR(3)}, 1, {ROW}, 2, {0, 20, 32}, {0, 16, 35}},
    {OSTRAKA_RAGGED, 3, {MATRIX(7, 3), MATRIX(2, 5), VECTOR(7)}, 1, {ROW}, 4, {0, 21, 31}, {0, 12, 21, 33, 38}},
    {OSTRAKA_RAGGED, 2, {MATRIX(4, 16), VECTOR(4)}, 1, {ROW}, 4, {0, 64}, {0, 16, 32, 48, 68}},
    {OSTRAKA_RAGGED, 2, {MATRIX(4, 6), MATRIX(8, 4)}, 1, {BLOCK(2)}, 2, {0, 24}, {0, 32, 56}},
    /* One atom per tensor: the first one may be cut between rows, the second one not at all. */
    {OSTRAKA_RAGGED, 2, {MATRIX(3, 4), VECTOR(9)}, 2, {ROW, {OSTRAKA_ATOM_TENSOR, 0}}, 2, {0, 12}, {0, 12, 21}},
    {OSTRAKA_RAGGED, 2, {MATRIX(3, 4), VECTOR(9)}, 2, {ROW, {OSTRAKA_ATOM_ELEMENT, 0}}, 3, {0, 12}, {0, 8, 16, 21}},
    /* Rows of the last dimension. */
    {OSTRAKA_RAGGED, 1, {{3, (const int64_t[]){1, 4, 5}}}, 1, {{OSTRAKA_ATOM_LAST_DIMS, 1}}, 2, {0}, {0, 10, 20}},
    /* Flat and planned cut anywhere. */
    {OSTRAKA_FLAT, 1, {VECTOR(3 * BILLION)}, 0, {ROW}, 2, {0}, {0, 3 * BILLION / 2, 3 * BILLION}},
    {OSTRAKA_PLANNED, 2, {MATRIX(5, 3), VECTOR(7)}, 1, {{OSTRAKA_ATOM_ELEMENT, 0}}, 2, {0, 15}, {0, 11, 22}},
};

static void check_offsets_and_cuts(ostraka_layout_t layout, int32_t num_tensors, const int64_t* offsets,
                                   int32_t segments, const int64_t* cuts) {
  int64_t begin = -1, end = -1, size = -1, segment_size = -1, largest = 0;
  int32_t count = -1;
  CHECK_OK(ostraka_layout_num_segments(layout, &count));
  CHECK_INT(count, segments);
  CHECK_OK(ostraka_layout_num_tensors(layout, &count));
  CHECK_INT(count, num_tensors);
  for (int32_t i = 0; i < num_tensors; ++i) {
    CHECK_OK(ostraka_layout_tensor_range(layout, i, &begin, &end));
    CHECK_INT(begin, offsets[i]);
  }
  for (int32_t k = 0; k < segments; ++k) {
    CHECK_OK(ostraka_layout_segment_range(layout, k, &begin, &end));
    CHECK_INT(begin, cuts[k]);
    CHECK_INT(end, cuts[k + 1]);
    largest = end - begin > largest ? end - begin : largest;
  }
  CHECK_OK(ostraka_layout_size(layout, &size));
  CHECK_INT(size, cuts[segments]);
  CHECK_OK(ostraka_layout_segment_size(layout, &segment_size));
  CHECK_INT(segment_size, largest);
}

static void tables(void) {
  for (size_t row = 0; row < sizeof table / sizeof *table; ++row) {
    const expected_t* e = &table[row];
    ostraka_layout_t layout = NULL;
    int32_t policy = -1;
    if (!CHECK_OK(ostraka_layout_build(e->policy, e->num_tensors, e->shapes, e->num_atoms, e->atoms, e->segments, 1, 1,
                                       &layout)))
      continue;
    CHECK_OK(ostraka_layout_policy(layout, &policy));
    CHECK_INT(policy, e->policy);
    check_offsets_and_cuts(layout, e->num_tensors, e->offsets, e->segments, e->cuts);
    if (e->num_atoms > 0)
      CHECK_OK(ostraka_layout_validate(layout, e->num_atoms, e->atoms));
    CHECK_OK(ostraka_layout_destroy(&layout));
  }
}

typedef struct {
  int32_t num_tensors;
  ostraka_shape_t shapes[4];
  int32_t segments, owners[4];
  int64_t offsets[4], cuts[6];
} atomic_t;

static const atomic_t atomic_table[] = {
    {4,
     {MATRIX(4, 4), VECTOR(3), MATRIX(2, 6), MATRIX(7, 3)},
     5,
     {1, 3, 0, 3},
     {12, 28, 0, 31},
     {0, 12, 28, 28, 52, 52}},
    {3, {MATRIX(4, 4), MATRIX(2, 6), MATRIX(1, 2)}, 2, {0, 1, 1}, {0, 16, 28}, {0, 16, 30}},
    {3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 4, {0, 1, 3}, {0, 15, 27}, {0, 15, 27, 27, 34}},
    {3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 4, {0, 1, 1}, {0, 15, 27}, {0, 15, 34, 34, 34}},
    {0, {VECTOR(1)}, 2, {0}, {0}, {0, 0, 0}},
    {4, {VECTOR(2), VECTOR(3), VECTOR(4), VECTOR(5)}, 4, {0, 1, 2, 3}, {0, 2, 5, 9}, {0, 2, 5, 9, 14}},
};

static void tensor_atomic(void) {
  const ostraka_atom_t whole = {OSTRAKA_ATOM_TENSOR, 1};
  for (size_t row = 0; row < sizeof atomic_table / sizeof *atomic_table; ++row) {
    const atomic_t* e = &atomic_table[row];
    ostraka_layout_t layout = NULL;
    int32_t policy = -1, first = -1, last = -1;
    if (!CHECK_OK(ostraka_layout_tensor_atomic(e->num_tensors, e->shapes, e->owners, e->segments, &layout)))
      continue;
    CHECK_OK(ostraka_layout_policy(layout, &policy));
    CHECK_INT(policy, OSTRAKA_TENSOR_ATOMIC);
    check_offsets_and_cuts(layout, e->num_tensors, e->offsets, e->segments, e->cuts);
    for (int32_t i = 0; i < e->num_tensors; ++i) {
      CHECK_OK(ostraka_layout_owners(layout, i, &first, &last));
      CHECK_INT(first, e->owners[i]);
      CHECK_INT(last, e->owners[i]);
    }
    CHECK_OK(ostraka_layout_validate(layout, 1, &whole));
    CHECK_OK(ostraka_layout_destroy(&layout));
  }
  ostraka_layout_t empty = NULL;
  CHECK_OK(ostraka_layout_tensor_atomic(0, NULL, NULL, 2, &empty));
  CHECK_OK(ostraka_layout_destroy(&empty));
}

/* [128] and [2560] on 3 ranks, 16 bytes of bf16: 896 elements per rank. */
static void flat_segments_are_aligned(void) {
  const ostraka_shape_t shapes[] = {VECTOR(128), VECTOR(2560)};
  ostraka_layout_t layout = NULL;
  int64_t begin = -1, end = -1;
  CHECK_OK(ostraka_layout_build(OSTRAKA_FLAT, 2, shapes, 0, NULL, 3, 8, 8, &layout));
  for (int32_t k = 0; k < 3; ++k) {
    CHECK_OK(ostraka_layout_segment_range(layout, k, &begin, &end));
    CHECK_INT(begin, 896 * k);
    CHECK_INT(end, 896 * (k + 1));
  }
  CHECK_OK(ostraka_layout_tensor_range(layout, 1, &begin, &end));
  CHECK_INT(begin % 8, 0);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

static void check_automatic(int64_t segment_multiple, int32_t expected, int64_t size, const char* why) {
  const ostraka_shape_t vector = VECTOR(100);
  ostraka_layout_t layout = NULL;
  int32_t policy = -1;
  int64_t found = -1;
  const char* text = "";
  CHECK_OK(ostraka_layout_build(OSTRAKA_AUTOMATIC, 1, &vector, 0, NULL, 1, 1, segment_multiple, &layout));
  CHECK_OK(ostraka_layout_policy(layout, &policy));
  CHECK_INT(policy, expected);
  CHECK_OK(ostraka_layout_size(layout, &found));
  CHECK_INT(found, size);
  CHECK_OK(ostraka_layout_report(layout, &text));
  CHECK(strstr(text, why) != NULL);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

/* Coprime rows: the reference pads 93 elements to 4004, planned at most to 104. That is more than 3 %, so automatic is
 * ragged. */
static void coprime_rows(void) {
  const ostraka_shape_t shapes[] = {MATRIX(3, 7), MATRIX(3, 11), MATRIX(3, 13)};
  static const ostraka_atom_t row = ROW;
  static const int32_t policies[] = {OSTRAKA_REFERENCE, OSTRAKA_PLANNED, OSTRAKA_RAGGED, OSTRAKA_AUTOMATIC};
  int64_t sizes[4] = {0}, largest[4] = {0}, payload = 0;
  int32_t chosen = -1;
  for (int i = 0; i < 4; ++i) {
    ostraka_layout_t layout = NULL;
    CHECK_OK(ostraka_layout_build(policies[i], 3, shapes, 1, &row, 4, 1, 1, &layout));
    CHECK_OK(ostraka_layout_size(layout, &sizes[i]));
    CHECK_OK(ostraka_layout_segment_size(layout, &largest[i]));
    CHECK_OK(ostraka_layout_payload(layout, &payload));
    CHECK_INT(payload, 93);
    CHECK_OK(ostraka_layout_policy(layout, &chosen));
    CHECK_OK(ostraka_layout_validate(layout, 1, &row));
    CHECK_OK(ostraka_layout_destroy(&layout));
  }
  CHECK_INT(sizes[0], 4004);
  CHECK_INT(sizes[1], 104);
  CHECK_INT(sizes[2], 93);
  CHECK_INT(largest[1], largest[2]);
  CHECK_INT(chosen, OSTRAKA_RAGGED);
  CHECK_INT(sizes[3], 93);
}

static void check_plan(int32_t num_layouts, ostraka_layout_t* layouts, int32_t num_tensors, const int32_t* expected) {
  int32_t owners[12];
  for (int32_t i = 0; i < 12; ++i)
    owners[i] = -7;
  CHECK_OK(ostraka_layout_plan_owners(num_layouts, layouts, 5, owners));
  for (int32_t i = 0; i < 12; ++i) /* and nothing behind them */
    CHECK_INT(owners[i], i < num_tensors ? expected[i] : -7);
  for (int32_t i = 0; i < num_layouts; ++i)
    CHECK_OK(ostraka_layout_destroy(&layouts[i]));
}

static void plan_owners(void) {
  const ostraka_shape_t three[] = {MATRIX(6, 3), MATRIX(4, 2), MATRIX(2, 2)};
  const ostraka_shape_t pair[] = {MATRIX(4, 3), MATRIX(4, 3)};
  const ostraka_shape_t large = MATRIX(8, 8), middle = MATRIX(4, 4), small = MATRIX(8, 1);
  ostraka_layout_t layouts[10] = {NULL};
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 3, three, 0, NULL, 3, 1, 1, &layouts[0]));
  check_plan(1, layouts, 3, (const int32_t[]){0, 1, 2});
  /* Several layouts: one after the other; those of one rank stay there. */
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 2, pair, 0, NULL, 2, 1, 1, &layouts[0]));
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 2, pair, 0, NULL, 2, 1, 1, &layouts[1]));
  check_plan(2, layouts, 4, (const int32_t[]){0, 1, 0, 1});
  /* On both ranks each. 8 x 8 costs 64 x 41 = 2624, which seven 4 x 4 of 16 x 21 = 336 do not reach and eight exceed;
   * 8 x 1 goes to the cheaper rank. */
  for (int32_t middles = 7; middles <= 8; ++middles) {
    CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 1, &large, 0, NULL, 2, 1, 1, &layouts[0]));
    for (int32_t i = 1; i <= middles; ++i)
      CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 1, &middle, 0, NULL, 2, 1, 1, &layouts[i]));
    CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 1, &small, 0, NULL, 2, 1, 1, &layouts[middles + 1]));
    int32_t expected[] = {0, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    expected[middles + 1] = middles == 7 ? 1 : 0;
    check_plan(middles + 2, layouts, middles + 2, expected);
  }
}

void layout_policy_suite(void) {
  tables();
  tensor_atomic();
  flat_segments_are_aligned();
  check_automatic(103, OSTRAKA_PLANNED, 103, "; the padding of planned is at most 3 %");
  check_automatic(104, OSTRAKA_RAGGED, 100, "; planned would pad more than 3 %");
  coprime_rows();
  plan_owners();
}
