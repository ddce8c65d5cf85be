/* SPDX-License-Identifier: Apache-2.0 */
#include "suites.h"

#include <string.h>

static const int64_t matrix[] = {5, 3}, vector[] = {7};
static const ostraka_shape_t shapes[] = {{2, matrix}, {1, vector}};

static void check_layout(ostraka_layout_t layout, const int64_t sizes[3], const int64_t ranges[4], const char* text) {
  int64_t size = 0, payload = 0, segment = 0, begin = -1, end = -1;
  int64_t extents[8] = {0};
  int32_t count = 0, ndim = 0;
  const char* report = NULL;
  CHECK_OK(ostraka_layout_size(layout, &size));
  CHECK_OK(ostraka_layout_payload(layout, &payload));
  CHECK_OK(ostraka_layout_segment_size(layout, &segment));
  CHECK_INT(size, sizes[0]);
  CHECK_INT(payload, sizes[1]);
  CHECK_INT(segment, sizes[2]);
  CHECK_OK(ostraka_layout_num_tensors(layout, &count));
  CHECK_INT(count, 2);
  for (int i = 0; i < 2; ++i) {
    CHECK_OK(ostraka_layout_tensor_range(layout, i, &begin, &end));
    CHECK_INT(begin, ranges[2 * i]);
    CHECK_INT(end, ranges[2 * i + 1]);
    CHECK_OK(ostraka_layout_tensor_shape(layout, i, &ndim, extents));
    CHECK_INT(ndim, shapes[i].ndim);
    for (int axis = 0; axis < ndim; ++axis)
      CHECK_INT(extents[axis], shapes[i].extents[axis]);
  }
  CHECK_OK(ostraka_layout_tensor_shape(layout, 0, &ndim, NULL));
  CHECK_INT(ndim, 2);
  if (CHECK_OK(ostraka_layout_report(layout, &report)))
    CHECK(strncmp(report, text, strlen(text)) == 0);
}

static void right_values(void) {
  ostraka_layout_t layout = NULL;
  /* Rows of 3 and 1: chunks of 3, so the buffer is a multiple of 3 x 4. */
  if (CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 2, shapes, 0, NULL, 4, 1, 1, &layout)))
    check_layout(layout, (const int64_t[]){24, 22, 6}, (const int64_t[]){0, 15, 15, 22},
                 "reference: 2 tensors, payload 22, padding 2 (9.1 %), 4 segments of at most 6 elements");
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK(layout == NULL);

  /* The vector starts at a multiple of 8; a quarter of 23 is rounded to a multiple of 4. */
  if (CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 0, NULL, 4, 8, 4, &layout)))
    check_layout(layout, (const int64_t[]){32, 22, 8}, (const int64_t[]){0, 15, 16, 23},
                 "planned: 2 tensors, payload 22, padding 10 (45.5 %), 4 segments of at most 8 elements; ");
  CHECK_OK(ostraka_layout_destroy(&layout));

  /* Without tensors, and with a scalar whose extents are null. */
  const ostraka_shape_t scalar = {0, NULL};
  int64_t size = -1;
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 0, NULL, 0, NULL, 3, 1, 1, &layout));
  CHECK_OK(ostraka_layout_size(layout, &size));
  CHECK_INT(size, 0);
  CHECK_OK(ostraka_layout_destroy(&layout));
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 1, &scalar, 0, NULL, 3, 1, 1, &layout));
  CHECK_OK(ostraka_layout_size(layout, &size));
  CHECK_INT(size, 3);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

static void errors(void) {
  ostraka_layout_t layout = NULL;
  const int64_t negative[] = {2, -1}, huge[] = {INT64_C(1) << 62, 4};
  const ostraka_shape_t bad_rank = {-1, matrix}, no_extents = {2, NULL}, bad_extent = {2, negative}, wide = {2, huge};
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_REFERENCE, -1, shapes, 0, NULL, 4, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "tensors >= 0, found -1");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, -1, shapes, 0, NULL, 4, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "tensors >= 0, found -1");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_REFERENCE, 2, NULL, 0, NULL, 4, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "'shapes' is null");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 2, NULL, 0, NULL, 4, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "'shapes' is null");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_REFERENCE, 1, &bad_rank, 0, NULL, 4, 1, 1, &layout),
              OSTRAKA_INVALID_ARGUMENT, "-1 dimensions");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_REFERENCE, 1, &no_extents, 0, NULL, 4, 1, 1, &layout),
              OSTRAKA_INVALID_ARGUMENT, "extents");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 1, &bad_extent, 0, NULL, 4, 1, 1, &layout),
              OSTRAKA_INVALID_ARGUMENT, "found -1");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 1, &wide, 0, NULL, 4, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "64 bits");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_REFERENCE, 2, shapes, 0, NULL, 0, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "segments >= 1, found 0");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 0, NULL, -2, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "segments >= 1");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 0, NULL, 4, 0, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "tensor alignment >= 1");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 0, NULL, 4, 1, 0, &layout), OSTRAKA_INVALID_ARGUMENT,
              "segment alignment >= 1");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_REFERENCE, 2, shapes, 0, NULL, 4, 1, 1, NULL), OSTRAKA_INVALID_ARGUMENT,
              "'layout' is null");
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 2, shapes, 0, NULL, 4, 1, 1, NULL), OSTRAKA_INVALID_ARGUMENT,
              "'layout' is null");
  CHECK(layout == NULL);
}

#define REFUSED(call, words)                                                                                           \
  do {                                                                                                                 \
    CHECK_FAILS(call, OSTRAKA_INVALID_ARGUMENT, words);                                                                \
    CHECK_OK(ostraka_layout_tensor_range(layout, 1, &begin, &end));                                                    \
    CHECK_INT(begin, 15);                                                                                              \
  } while (0)

static void queries_refuse_and_stay_usable(void) {
  ostraka_layout_t layout = NULL;
  int64_t begin = 0, end = 0;
  int32_t ndim = 0;
  const int64_t ones[9] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
  const ostraka_shape_t nine = {9, ones}, eight = {8, ones};
  int64_t extents[8];
  CHECK_OK(ostraka_layout_build(OSTRAKA_REFERENCE, 2, shapes, 0, NULL, 4, 1, 1, &layout));
  REFUSED(ostraka_layout_tensor_range(layout, -1, &begin, &end), "[0, 2), found -1");
  REFUSED(ostraka_layout_tensor_range(layout, 2, &begin, &end), "[0, 2), found 2");
  REFUSED(ostraka_layout_tensor_shape(layout, 2, &ndim, extents), "[0, 2), found 2");
  REFUSED(ostraka_layout_size(layout, NULL), "'size' is null");
  REFUSED(ostraka_layout_payload(layout, NULL), "'payload' is null");
  REFUSED(ostraka_layout_segment_size(layout, NULL), "'segment_size' is null");
  REFUSED(ostraka_layout_num_tensors(layout, NULL), "'num_tensors' is null");
  REFUSED(ostraka_layout_tensor_shape(layout, 0, NULL, extents), "'ndim' is null");
  REFUSED(ostraka_layout_tensor_range(layout, 0, NULL, &end), "'begin' is null");
  REFUSED(ostraka_layout_tensor_range(layout, 0, &begin, NULL), "'end' is null");
  REFUSED(ostraka_layout_report(layout, NULL), "'text' is null");
  REFUSED(ostraka_layout_destroy(NULL), "address of the layout handle is null");
  CHECK_OK(ostraka_layout_destroy(&layout));

  /* Callers have room for 8 extents, so no shape has more. */
  CHECK_FAILS(ostraka_layout_build(OSTRAKA_PLANNED, 1, &nine, 0, NULL, 1, 1, 1, &layout), OSTRAKA_INVALID_ARGUMENT,
              "expected 0 to 8");
  CHECK_OK(ostraka_layout_build(OSTRAKA_PLANNED, 1, &eight, 0, NULL, 1, 1, 1, &layout));
  CHECK_OK(ostraka_layout_tensor_shape(layout, 0, &ndim, extents));
  CHECK_INT(ndim, 8);
  CHECK_OK(ostraka_layout_destroy(&layout));
}

void layout_suite(void) {
  right_values();
  errors();
  queries_refuse_and_stay_usable();
}
