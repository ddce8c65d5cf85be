/* SPDX-License-Identifier: Apache-2.0
 *
 * What this rank holds of every parameter of a context or a ddp, in the parameter's own coordinates (C order): for
 * files of the program's own. Optimizer state has the chunks of its parameter. Everything is local arithmetic.
 */
#ifndef OSTRAKA_CHUNKS_H
#define OSTRAKA_CHUNKS_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The main weights of a finalised context or ddp by full name "module.parameter", frozen ones too; tied names have
 * equal chunks. They stay valid without it. */
ostraka_status_t ostraka_chunks_create(ostraka_fsdp_context_t context, ostraka_chunks_t* chunks);
ostraka_status_t ostraka_chunks_create_ddp(ostraka_ddp_t ddp, ostraka_chunks_t* chunks);
ostraka_status_t ostraka_chunks_destroy(ostraka_chunks_t* chunks);

/* The number of names, and name `index` (from 0, alphabetically); valid until the chunks are destroyed. */
ostraka_status_t ostraka_chunks_num_names(ostraka_chunks_t chunks, int32_t* num_names);
ostraka_status_t ostraka_chunks_name(ostraka_chunks_t chunks, int32_t index, const char** name);

/* Of the whole tensor: number of dimensions and extents; `extents` has room for 8, or is NULL. This and all below:
 * INVALID_ARGUMENT for an unknown name. */
ostraka_status_t ostraka_chunks_shape(ostraka_chunks_t chunks, const char* name, int32_t* ndim, int64_t* extents);

/* The elements that this rank holds: the number of elements before them in the tensor, and their number. A rank without
 * elements has none, behind those of lower positions. */
ostraka_status_t ostraka_chunks_range(ostraka_chunks_t chunks, const char* name, int64_t* offset, int64_t* count);

/* Those of them that this rank writes to a checkpoint: where several ranks hold the same range of a buffer they share
 * it evenly, so every element has exactly one writer. */
ostraka_status_t ostraka_chunks_written(ostraka_chunks_t chunks, const char* name, int64_t* offset, int64_t* count);

/* The dim-0 rows that this rank holds; a scalar is one row. INVALID_ARGUMENT where a row is cut. */
ostraka_status_t ostraka_chunks_rows(ostraka_chunks_t chunks, const char* name, int64_t* first_row, int64_t* num_rows);

/* The elements that this rank holds as rectangular boxes. `offsets` and `sizes` have room for max_boxes x ndim numbers,
 * box after box; 2 x (ndim - 1) + 1 boxes (1 for a scalar) always suffice. `num_boxes` receives their number, 0 for no
 * elements; with max_boxes 0 only that. SHAPE_MISMATCH when they do not fit. */
ostraka_status_t ostraka_chunks_boxes(ostraka_chunks_t chunks, const char* name, int32_t max_boxes, int64_t* offsets,
                                      int64_t* sizes, int32_t* num_boxes);

/* The box of rows [first_row, first_row + num_rows) of a tensor; `offsets` and `sizes` have room for as many numbers as
 * it has dimensions. INVALID_ARGUMENT when the rows leave it. */
ostraka_status_t ostraka_row_box(ostraka_shape_t shape, int64_t first_row, int64_t num_rows, int64_t* offsets,
                                 int64_t* sizes);

#ifdef __cplusplus
}
#endif

#endif
