/* SPDX-License-Identifier: Apache-2.0
 *
 * What the builders and queries of layouts refuse; a refusal leaves the results of the caller as they were.
 */
#include "suites.h"

#include <stddef.h>

static const int64_t matrix[] = {5, 4}, vector[] = {7};
static const ostraka_shape_t shapes[] = {{2, matrix}, {1, vector}};
static const ostraka_atom_t row = {OSTRAKA_ATOM_ROW, 1};

static ostraka_layout_t layout, refused; /* what the queries ask; what a failed builder must leave null */
static int64_t begin = -7, end = -7;
static int32_t first = -7, last = -7;

static void check_untouched(int line) {
  check_true(begin == -7 && end == -7 && first == -7 && last == -7 && refused == NULL, "results stay", __FILE__, line);
}

#define REFUSED(call, words)                                                                                           \
  do {                                                                                                                 \
    CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, words);                                                                \
    check_untouched(__LINE__);                                                                                         \
  } while (0)

static void policies_and_alignments(void) {
  REFUSED(ostraka_layout_build(6, 2, shapes, 0, NULL, 2, 1, 1, &refused), "policy 6");
  REFUSED(ostraka_layout_build(-1, 2, shapes, 0, NULL, 2, 1, 1, &refused), "policy -1");
  REFUSED(ostraka_layout_build(OSTRAKA_TENSOR_ATOMIC, 2, shapes, 0, NULL, 2, 1, 1, &refused), "tensor_atomic");
  static const int32_t unaligned[] = {OSTRAKA_REFERENCE, OSTRAKA_RAGGED};
  for (int i = 0; i < 2; ++i) {
    REFUSED(ostraka_layout_build(unaligned[i], 2, shapes, 0, NULL, 2, 8, 1, &refused), "no alignment, found 8 for");
    REFUSED(ostraka_layout_build(unaligned[i], 2, shapes, 0, NULL, 2, 1, 4, &refused), "and 4 for segments");
    REFUSED(ostraka_layout_build(unaligned[i], 2, shapes, 0, NULL, 0, 1, 1, &refused), "segments >= 1, found 0");
  }
  static const int32_t aligned[] = {OSTRAKA_PLANNED, OSTRAKA_FLAT, OSTRAKA_AUTOMATIC};
  for (int i = 0; i < 3; ++i) {
    REFUSED(ostraka_layout_build(aligned[i], 2, shapes, 0, NULL, 2, 0, 1, &refused), "tensor alignment >= 1, found 0");
    REFUSED(ostraka_layout_build(aligned[i], 2, shapes, 0, NULL, 2, 1, -3, &refused), "segment alignment >= 1");
    REFUSED(ostraka_layout_build(aligned[i], 2, shapes, 0, NULL, 0, 1, 1, &refused), "segments >= 1, found 0");
  }
}

static void atoms(void) {
  const ostraka_atom_t three[] = {row, row, row}, unknown = {5, 1}, negative = {-1, 1};
  const ostraka_atom_t no_rows = {OSTRAKA_ATOM_BLOCK, 0}, dims = {OSTRAKA_ATOM_LAST_DIMS, -1};
  static const int32_t all[] = {OSTRAKA_REFERENCE, OSTRAKA_PLANNED, OSTRAKA_RAGGED, OSTRAKA_AUTOMATIC};
  for (int i = 0; i < 4; ++i) {
    REFUSED(ostraka_layout_build(all[i], 2, shapes, 3, three, 2, 1, 1, &refused), "no atoms, one or 2, found 3");
    REFUSED(ostraka_layout_build(all[i], 2, shapes, -1, three, 2, 1, 1, &refused), "atoms >= 0, found -1");
    REFUSED(ostraka_layout_build(all[i], 2, shapes, 1, NULL, 2, 1, 1, &refused), "'atoms' is null");
  }
  REFUSED(ostraka_layout_build(OSTRAKA_RAGGED, 2, shapes, 1, &unknown, 2, 1, 1, &refused), "found 5");
  REFUSED(ostraka_layout_build(OSTRAKA_RAGGED, 2, shapes, 1, &negative, 2, 1, 1, &refused), "found -1");
  REFUSED(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 1, &no_rows, 2, 1, 1, &refused), "at least 1 row, found 0");
  REFUSED(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 1, &dims, 2, 1, 1, &refused), "found -1");
  REFUSED(ostraka_layout_build(OSTRAKA_FLAT, 2, shapes, 1, &row, 2, 1, 1, &refused), "takes no atoms");

  /* The reference takes rows or one kind of blocks, whole ones only. */
  const ostraka_atom_t whole = {OSTRAKA_ATOM_TENSOR, 1}, mixed[] = {row, {OSTRAKA_ATOM_BLOCK, 7}};
  const ostraka_atom_t block = {OSTRAKA_ATOM_BLOCK, 32};
  static const int64_t extents[] = {48, 64};
  const ostraka_shape_t short_block = {2, extents};
  REFUSED(ostraka_layout_build(OSTRAKA_REFERENCE, 2, shapes, 1, &whole, 2, 1, 1, &refused), "found atoms of tensor");
  REFUSED(ostraka_layout_build(OSTRAKA_REFERENCE, 2, shapes, 1, &no_rows, 2, 1, 1, &refused), "found 0");
  REFUSED(ostraka_layout_build(OSTRAKA_REFERENCE, 2, shapes, 2, mixed, 2, 1, 1, &refused), "one atom for all tensors");
  REFUSED(ostraka_layout_build(OSTRAKA_REFERENCE, 1, &short_block, 1, &block, 2, 1, 1, &refused),
          "tensor 0 of shape (48, 64): expected 48 rows to be a multiple of the block of 32");
}

static void owners_to_build_with(void) {
  const int32_t high[] = {0, 2}, low[] = {-1, 0}, good[] = {0, 1};
  REFUSED(ostraka_layout_tensor_atomic(2, shapes, high, 2, &refused), "tensor 1 of shape (7)");
  REFUSED(ostraka_layout_tensor_atomic(2, shapes, high, 2, &refused), "from 0 to 1, found 2");
  REFUSED(ostraka_layout_tensor_atomic(2, shapes, low, 2, &refused), "tensor 0 of shape (5, 4)");
  REFUSED(ostraka_layout_tensor_atomic(2, shapes, good, 0, &refused), "segments >= 1, found 0");
  REFUSED(ostraka_layout_tensor_atomic(2, shapes, NULL, 2, &refused), "'owners' is null");
  REFUSED(ostraka_layout_tensor_atomic(2, NULL, good, 2, &refused), "'shapes' is null");
  REFUSED(ostraka_layout_tensor_atomic(-1, shapes, good, 2, &refused), ">= 0, found -1");
  REFUSED(ostraka_layout_tensor_atomic(2, shapes, good, 2, NULL), "'layout' is null");
}

static void owners_to_plan(void) {
  ostraka_layout_t pair[2] = {layout, NULL};
  int32_t owners[4] = {-7, -7, -7, -7};
  CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 2, shapes, 0, NULL, 2, 1, 1, &pair[1]));
  REFUSED(ostraka_layout_plan_owners(2, pair, 5, owners), "equal numbers of segments, found 3 and 2");
  REFUSED(ostraka_layout_plan_owners(1, pair, -1, owners), "steps >= 0, found -1");
  REFUSED(ostraka_layout_plan_owners(1, pair, 5, NULL), "'owners' is null");
  REFUSED(ostraka_layout_plan_owners(1, NULL, 5, owners), "'layouts' is null");
  REFUSED(ostraka_layout_plan_owners(-1, pair, 5, owners), ">= 0, found -1");
  CHECK(owners[0] == -7 && owners[1] == -7 && owners[2] == -7 && owners[3] == -7);
  CHECK_OK(ostraka_layout_destroy(&pair[1]));
}

static void indices(void) {
  int64_t numbers[2] = {-7, -7};
  int32_t count = -7;
  for (int32_t i = -1; i <= 2; i += 3) {
    const char* const found = i < 0 ? "[0, 2), found -1" : "[0, 2), found 2";
    REFUSED(ostraka_layout_owners(layout, i, &first, &last), found);
    REFUSED(ostraka_layout_row_chunk(layout, i, 0, 9, &begin, &end), found);
    REFUSED(ostraka_layout_boxes(layout, i, 0, 9, 1, &numbers[0], &numbers[1], &count), found);
  }
  REFUSED(ostraka_layout_segment_range(layout, -1, &begin, &end), "[0, 3), found -1");
  REFUSED(ostraka_layout_segment_range(layout, 3, &begin, &end), "[0, 3), found 3");
  CHECK(numbers[0] == -7 && numbers[1] == -7 && count == -7);
}

static void null_results(void) {
  const ostraka_placement_t shard = {OSTRAKA_SHARD, 0};
  const int32_t size = 3, coordinate = 1;
  REFUSED(ostraka_layout_policy(layout, NULL), "'policy' is null");
  REFUSED(ostraka_layout_num_segments(layout, NULL), "'num_segments' is null");
  REFUSED(ostraka_layout_segment_range(layout, 0, NULL, &end), "'begin' is null");
  REFUSED(ostraka_layout_segment_range(layout, 0, &begin, NULL), "'end' is null");
  REFUSED(ostraka_layout_owners(layout, 0, NULL, &last), "'first' is null");
  REFUSED(ostraka_layout_owners(layout, 0, &first, NULL), "'last' is null");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, &size, &coordinate, NULL, &end), "'begin' is null");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, &size, &coordinate, &begin, NULL), "'end' is null");
  REFUSED(ostraka_layout_row_chunk(layout, 0, 0, 8, NULL, &end), "'first_row' is null");
  REFUSED(ostraka_layout_row_chunk(layout, 0, 0, 8, &begin, NULL), "'num_rows' is null");
  REFUSED(ostraka_layout_boxes(layout, 0, 0, 8, 0, NULL, NULL, NULL), "'num_boxes' is null");
  int64_t corners[6];
  int32_t count = 0;
  REFUSED(ostraka_layout_boxes(layout, 0, 0, 8, 3, NULL, corners, &count), "'offsets' or 'sizes' is null");
  REFUSED(ostraka_layout_boxes(layout, 0, 0, 8, 3, corners, NULL, &count), "'offsets' or 'sizes' is null");
  REFUSED(ostraka_layout_hash(layout, NULL), "'hash' is null");
  REFUSED(ostraka_layout_report_json(layout, NULL), "'text' is null");
}

static void positions_on_a_mesh(void) {
  const ostraka_placement_t shard = {OSTRAKA_SHARD, 0}, replicate = {OSTRAKA_REPLICATE, 0}, unknown = {9, 0};
  const ostraka_placement_t outer[] = {shard, replicate};
  const int32_t three = 3, two = 2, zero = 0, minus = -1, plane[] = {3, 1}, origin[] = {0, 0};
  REFUSED(ostraka_layout_local_range(layout, 1, NULL, &three, &zero, &begin, &end), "'placements' is null");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, NULL, &zero, &begin, &end), "'sizes' is null");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, &three, NULL, &begin, &end), "'coordinates' is null");
  REFUSED(ostraka_layout_local_range(layout, -1, &shard, &three, &zero, &begin, &end), ">= 0, found -1");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, &three, &three, &begin, &end), "[0, 3), found 3");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, &three, &minus, &begin, &end), "[0, 3), found -1");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, &zero, &zero, &begin, &end), "size >= 1, found 0");
  REFUSED(ostraka_layout_local_range(layout, 1, &shard, &two, &zero, &begin, &end), "built for 3 segments");
  REFUSED(ostraka_layout_local_range(layout, 2, outer, plane, origin, &begin, &end), "must be a suffix");
  REFUSED(ostraka_layout_local_range(layout, 1, &unknown, &three, &zero, &begin, &end), "axis 0");
}

/* Nine elements per segment cut the rows of 4: elements [0, 9), [9, 18), [18, 27). */
static void cut_rows(void) {
  const ostraka_atom_t mixed[] = {{OSTRAKA_ATOM_ELEMENT, 1}, {OSTRAKA_ATOM_TENSOR, 1}}, three[] = {row, row, row};
  REFUSED(ostraka_layout_row_chunk(layout, 0, 0, 9, &begin, &end), "boxes");
  REFUSED(ostraka_layout_row_chunk(layout, 0, 9, 18, &begin, &end), "elements [9, 18) of a tensor of shape (5, 4)");
  static const char* const words[] = {"tensor 0 of shape (5, 4) at offset 0", "atom of 4 elements",
                                      "segment 1 to begin at element 9"};
  for (int i = 0; i < 3; ++i)
    REFUSED(ostraka_layout_validate(layout, 1, &row), words[i]);
  CHECK_OK(ostraka_layout_validate(layout, 1, &mixed[0]));
  CHECK_OK(ostraka_layout_validate(layout, 0, NULL));
  CHECK_OK(ostraka_layout_validate(layout, 2, mixed)); /* the vector at [20, 27) is whole */
  REFUSED(ostraka_layout_validate(layout, 3, three), "no atoms, one or 2, found 3");
  REFUSED(ostraka_layout_validate(layout, -1, &row), "atoms >= 0, found -1");
  REFUSED(ostraka_layout_validate(layout, 1, NULL), "'atoms' is null");

  int64_t offsets[6] = {-7, -7, -7, -7, -7, -7}, sizes[6] = {-7, -7, -7, -7, -7, -7};
  int32_t count = -7;
  CHECK_FAILS(ostraka_layout_boxes(layout, 0, 9, 18, 2, offsets, sizes, &count), OSTRAKA_SHAPE_MISMATCH,
              "room for 3 boxes, found 2");
  CHECK_INT(count, 3);
  CHECK_FAILS(ostraka_layout_boxes(layout, 0, 9, 18, -1, offsets, sizes, &count), OSTRAKA_SHAPE_MISMATCH, "found -1");
  CHECK(offsets[0] == -7 && sizes[0] == -7);
  CHECK_OK(ostraka_layout_boxes(layout, 0, 9, 18, 3, offsets, sizes, &count));
  CHECK(offsets[0] == 2 && offsets[1] == 1 && sizes[0] == 1 && sizes[1] == 3);
  CHECK(offsets[2] == 3 && offsets[3] == 0 && sizes[2] == 1 && sizes[3] == 4);
  CHECK(offsets[4] == 4 && offsets[5] == 0 && sizes[4] == 1 && sizes[5] == 2);
}

void layout_error_suite(void) {
  policies_and_alignments();
  atoms();
  owners_to_build_with();
  CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 2, shapes, 0, NULL, 3, 1, 1, &layout));
  owners_to_plan();
  indices();
  null_results();
  positions_on_a_mesh();
  cut_rows();
  CHECK_OK(ostraka_layout_destroy(&layout));
}
