/* SPDX-License-Identifier: Apache-2.0
 *
 * Who holds what: chunks of rows (spec 4), boxes, owners, ranges on a mesh (spec 1.2); hash, reports.
 */
#include "suites.h"

#include <stddef.h>
#include <string.h>

static ostraka_layout_t reference(int32_t num_tensors, const ostraka_shape_t* shapes, int32_t segments) {
  ostraka_layout_t layout = NULL;
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, num_tensors, shapes, 0, NULL, segments, 1, 1, &layout));
  return layout;
}

typedef struct {
  int32_t num_tensors;
  ostraka_shape_t shapes[3];
  int32_t segments, rank;
  int64_t chunks[3][2];
} chunks_t;

static const chunks_t chunk_table[] = {
    {2, {MATRIX(16, 8), VECTOR(16)}, 2, 0, {{0, 9}, {0, 0}}},
    {2, {MATRIX(16, 8), VECTOR(16)}, 2, 1, {{9, 7}, {0, 16}}},
    {3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 4, 0, {{0, 3}, {0, 0}, {0, 0}}},
    {3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 4, 1, {{3, 2}, {0, 1}, {0, 0}}},
    {3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 4, 2, {{5, 0}, {1, 3}, {0, 0}}},
    {3, {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)}, 4, 3, {{5, 0}, {4, 0}, {0, 7}}},
    {3, {MATRIX(4, 4), MATRIX(2, 2), MATRIX(2, 6)}, 2, 0, {{0, 4}, {0, 2}, {0, 0}}},
    {3, {MATRIX(4, 4), MATRIX(2, 2), MATRIX(2, 6)}, 2, 1, {{4, 0}, {2, 0}, {0, 2}}},
    {3, {MATRIX(5, 4), MATRIX(2, 6), VECTOR(3)}, 2, 0, {{0, 5}, {0, 0}, {0, 3}}},
    {3, {MATRIX(5, 4), MATRIX(2, 6), VECTOR(3)}, 2, 1, {{5, 0}, {0, 2}, {3, 0}}},
    {3, {MATRIX(6, 3), MATRIX(4, 2), MATRIX(2, 2)}, 3, 1, {{4, 2}, {0, 3}, {0, 0}}},
};

static void row_chunks(void) {
  for (size_t row = 0; row < sizeof chunk_table / sizeof *chunk_table; ++row) {
    const chunks_t* e = &chunk_table[row];
    ostraka_layout_t layout = reference(e->num_tensors, e->shapes, e->segments);
    int64_t begin = 0, end = 0, first = -1, count = -1;
    CHECK_OK(ostraka_layout_segment_range(layout, e->rank, &begin, &end));
    for (int32_t i = 0; i < e->num_tensors; ++i) {
      CHECK_OK(ostraka_layout_row_chunk(layout, i, begin, end, &first, &count));
      CHECK_INT(first, e->chunks[i][0]);
      CHECK_INT(count, e->chunks[i][1]);
    }
    CHECK_OK(ostraka_layout_destroy(&layout));
  }
}

enum { DIMS = 3, MOST = 2 * (DIMS - 1) + 1, CUBOID = 48 };

/* A vector of 3 and the cuboid at [3, 51), in two segments [0, 26) and [26, 51). */
static ostraka_layout_t make_cuboid(void) {
  static const int64_t extents[DIMS] = {4, 3, 4};
  const ostraka_shape_t shapes[] = {VECTOR(3), {DIMS, extents}};
  ostraka_layout_t layout = NULL;
  CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 2, shapes, 0, NULL, 2, 1, 1, &layout));
  return layout;
}

static void boxes_by_hand(void) {
  static const int64_t offsets[MOST][DIMS] = {{0, 1, 1}, {0, 2, 0}, {1, 0, 0}, {3, 0, 0}, {3, 2, 0}};
  static const int64_t sizes[MOST][DIMS] = {{1, 1, 3}, {1, 1, 4}, {2, 3, 4}, {1, 2, 4}, {1, 1, 2}};
  ostraka_layout_t layout = make_cuboid();
  int64_t found[2][MOST + 1][DIMS];
  memset(found, -1, sizeof found);
  int32_t count = -1;
  /* Elements 5 to 45 of the cuboid, which starts at 3: head and tail of a row, whole rows, all that is possible. */
  CHECK_OK(ostraka_layout_boxes(layout, 1, 8, 49, 0, NULL, NULL, &count));
  CHECK_INT(count, MOST);
  CHECK_OK(ostraka_layout_boxes(layout, 1, 8, 49, count, found[0][0], found[1][0], &count));
  CHECK_INT(count, MOST);
  for (int box = 0; box < MOST; ++box)
    for (int d = 0; d < DIMS; ++d) {
      CHECK_INT(found[0][box][d], offsets[box][d]);
      CHECK_INT(found[1][box][d], sizes[box][d]);
    }
  CHECK(found[0][MOST][0] == -1 && found[1][MOST][0] == -1);

  CHECK_OK(ostraka_layout_boxes(layout, 1, 0, 51, MOST, found[0][0], found[1][0], &count)); /* all of it */
  CHECK_INT(count, 1);
  CHECK(found[0][0][0] == 0 && found[1][0][0] == 4 && found[1][0][1] == 3 && found[1][0][2] == 4);
  CHECK_OK(ostraka_layout_boxes(layout, 0, 1, 51, MOST, found[0][0], found[1][0], &count)); /* the vector */
  CHECK_INT(count, 1);
  CHECK(found[0][0][0] == 1 && found[1][0][0] == 2);
  CHECK_OK(ostraka_layout_boxes(layout, 0, 26, 51, 0, NULL, NULL, &count));
  CHECK_INT(count, 0);
  CHECK_OK(ostraka_layout_destroy(&layout));

  const ostraka_shape_t scalar = {0, NULL};
  layout = reference(1, &scalar, 1);
  CHECK_OK(ostraka_layout_boxes(layout, 0, 0, 1, 1, NULL, NULL, &count));
  CHECK_INT(count, 1);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

/* However the cuboid is cut in three, each element is in one box, and in the order of the flat range. */
static void boxes_cover_everything_once(void) {
  ostraka_layout_t layout = make_cuboid();
  for (int64_t cut = 3; cut <= 51; ++cut)
    for (int64_t second = cut; second <= 51; second += 5) {
      const int64_t cuts[] = {0, cut, second, 51};
      int64_t next = 0;
      for (int k = 0; k < 3; ++k) {
        int64_t offsets[MOST][DIMS], sizes[MOST][DIMS];
        int32_t count = 0;
        CHECK_OK(ostraka_layout_boxes(layout, 1, cuts[k], cuts[k + 1], MOST, offsets[0], sizes[0], &count));
        int64_t wrong = 0;
        for (int32_t box = 0; box < count; ++box)
          for (int64_t a = 0; a < sizes[box][0]; ++a)
            for (int64_t b = 0; b < sizes[box][1]; ++b)
              for (int64_t c = 0; c < sizes[box][2]; ++c)
                wrong += next++ != ((offsets[box][0] + a) * 3 + offsets[box][1] + b) * 4 + offsets[box][2] + c;
        CHECK_INT(wrong, 0);
        CHECK_INT(next, cuts[k + 1] < 3 ? 0 : cuts[k + 1] - 3);
      }
      CHECK_INT(next, CUBOID);
    }
  CHECK_OK(ostraka_layout_destroy(&layout));
}

static void owners(void) {
  const ostraka_shape_t shapes[] = {MATRIX(6, 3), MATRIX(4, 2), MATRIX(2, 2), MATRIX(0, 4)};
  static const int32_t expected[][2] = {{0, 1}, {1, 2}, {2, 2}, {0, -1}};
  ostraka_layout_t layout = NULL;
  const ostraka_atom_t row = {OSTRAKA_ATOM_ROW, 1};
  int32_t first = -7, last = -7;
  layout = reference(3, shapes, 3);
  for (int32_t i = 0; i < 3; ++i) {
    CHECK_OK(ostraka_layout_owners(layout, i, &first, &last));
    CHECK_INT(first, expected[i][0]);
    CHECK_INT(last, expected[i][1]);
  }
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 4, shapes, 1, &row, 3, 1, 1, &layout));
  CHECK_OK(ostraka_layout_owners(layout, 3, &first, &last));
  CHECK(first == 0 && last == -1);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

/* The innermost axis is the most significant digit. */
static void ranges_on_a_mesh(void) {
  const ostraka_shape_t shapes[] = {MATRIX(7, 3), MATRIX(2, 5), VECTOR(7)};
  const ostraka_placement_t replicate = {OSTRAKA_REPLICATE, 0}, shard = {OSTRAKA_SHARD, 0};
  const ostraka_placement_t lists[4][2] = {
      {shard, shard}, {replicate, shard}, {{OSTRAKA_PARTIAL, OSTRAKA_MEAN}, shard}, {replicate, replicate}};
  const int64_t lengths[] = {15, 30, 30, 60};
  const int32_t sizes[] = {2, 2};
  ostraka_layout_t layout = reference(3, shapes, 4);
  for (int list = 0; list < 4; ++list)
    for (int32_t outer = 0; outer < 2; ++outer)
      for (int32_t inner = 0; inner < 2; ++inner) {
        const int32_t coordinates[] = {outer, inner};
        const int64_t expected = list == 3 ? 0 : 30 * inner + (list == 0 ? 15 * outer : 0);
        int64_t begin = -1, end = -1;
        CHECK_OK(ostraka_layout_local_range(layout, 2, lists[list], sizes, coordinates, &begin, &end));
        CHECK_INT(begin, expected);
        CHECK_INT(end, expected + lengths[list]);
      }
  CHECK_OK(ostraka_layout_destroy(&layout));
}

static int64_t hash_of(int32_t policy, int32_t num_tensors, const ostraka_shape_t* shapes, int32_t segments) {
  ostraka_layout_t layout = NULL;
  int64_t hash = 0, again = 0;
  CHECK_OK(ostraka_layout_build(policy, num_tensors, shapes, 0, NULL, segments, 1, 1, &layout));
  CHECK_OK(ostraka_layout_hash(layout, &hash));
  CHECK_OK(ostraka_layout_hash(layout, &again));
  CHECK_INT(again, hash);
  CHECK_OK(ostraka_layout_destroy(&layout));
  return hash;
}

static void hashes(void) {
  const ostraka_shape_t shapes[] = {MATRIX(5, 3), MATRIX(4, 3)}, other[] = {MATRIX(3, 5), MATRIX(4, 3)};
  const int64_t hash = hash_of(OSTRAKA_REFERENCE, 2, shapes, 3);
  CHECK_INT(hash_of(OSTRAKA_REFERENCE, 2, shapes, 3), hash);
  CHECK(hash_of(OSTRAKA_PLANNED, 2, shapes, 3) != hash);
  CHECK(hash_of(OSTRAKA_REFERENCE, 2, shapes, 9) != hash);
  CHECK(hash_of(OSTRAKA_REFERENCE, 1, shapes, 3) != hash);
  CHECK(hash_of(OSTRAKA_RAGGED, 2, other, 3) != hash_of(OSTRAKA_RAGGED, 2, shapes, 3));
}

static void reports(void) {
  const ostraka_shape_t shapes[] = {MATRIX(5, 3), MATRIX(4, 3), VECTOR(7)};
  static const char* const members[] = {
      "\"policy\":\"ragged\"", "\"reason\":\"",       "\"payload\":34",
      "\"padding\":0",         "\"segments\":4",      "\"largest_segment\":9",
      "\"mean_segment\":8.5",  "\"overhead\":0.0588", "\"owners\":[[0,1],[1,2],[3,3]]}"};
  const ostraka_atom_t row = {OSTRAKA_ATOM_ROW, 1};
  ostraka_layout_t layout = NULL, other = NULL;
  const char *json = "", *again = NULL, *text = "";
  CHECK_OK(ostraka_layout_build(OSTRAKA_RAGGED, 3, shapes, 1, &row, 4, 1, 1, &layout));
  CHECK_OK(ostraka_layout_report_json(layout, &json));
  CHECK_OK(ostraka_layout_report(layout, &text));
  CHECK_OK(ostraka_layout_build(OSTRAKA_FLAT, 3, shapes, 0, NULL, 2, 1, 1, &other));
  CHECK_OK(ostraka_layout_destroy(&other));
  const char* next = json; /* in this order, and still there */
  CHECK(*json == '{');
  for (size_t i = 0; i < sizeof members / sizeof *members && next != NULL; ++i) {
    next = strstr(next, members[i]);
    check_true(next != NULL, members[i], __FILE__, __LINE__);
  }
  const char* const head = "ragged: 3 tensors, payload 34, padding 0 (0.0 %), 4 segments of at most 9 elements";
  CHECK(strncmp(text, head, strlen(head)) == 0);
  CHECK_OK(ostraka_layout_report_json(layout, &again));
  CHECK(again == json);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

void layout_part_suite(void) {
  row_chunks();
  boxes_by_hand();
  boxes_cover_everything_once();
  owners();
  ranges_on_a_mesh();
  hashes();
  reports();
}
