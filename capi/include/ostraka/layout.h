/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout says where tensors stand in one flat buffer and how the buffer is cut into segments, one per rank. Pure
 * arithmetic: everything here is local and needs neither MPI nor ostraka_initialize. Numbers are elements; tensors,
 * segments and ranks count from 0; ranges are [begin, end).
 */
#ifndef OSTRAKA_LAYOUT_H
#define OSTRAKA_LAYOUT_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Builds a layout.
 *   policy             any but OSTRAKA_TENSOR_ATOMIC
 *   num_atoms, atoms   none (elements; rows for REFERENCE), one for all tensors, or one per tensor
 *   segments           product of all mesh axes
 *   tensor_alignment   every tensor starts at a multiple; 1 for REFERENCE and RAGGED
 *   segment_multiple   every segment is a multiple; 1 for REFERENCE and RAGGED
 * INVALID_ARGUMENT names the tensor. */
ostraka_status_t ostraka_layout_build(int32_t policy, int32_t num_tensors, const ostraka_shape_t* shapes,
                                      int32_t num_atoms, const ostraka_atom_t* atoms, int32_t segments,
                                      int64_t tensor_alignment, int64_t segment_multiple, ostraka_layout_t* layout);

/* Builds a layout in which rank owners[i] holds tensor i whole. */
ostraka_status_t ostraka_layout_tensor_atomic(int32_t num_tensors, const ostraka_shape_t* shapes, const int32_t* owners,
                                              int32_t segments, ostraka_layout_t* layout);

/* Chooses owners that balance the cost of an optimizer which works on whole matrices in `steps` iterations, jointly
 * over several layouts of equal numbers of segments; tensors stay where a rank holds them whole, others go to a rank
 * that holds a part. `owners` has room for the tensors of all layouts, one layout after the other. */
ostraka_status_t ostraka_layout_plan_owners(int32_t num_layouts, const ostraka_layout_t* layouts, int64_t steps,
                                            int32_t* owners);

/* Destroys the handle and makes it NULL; a null one is no error. Buffers keep their layout. Local. */
ostraka_status_t ostraka_layout_destroy(ostraka_layout_t* layout);

/* The policy that was chosen (for AUTOMATIC: PLANNED or RAGGED). */
ostraka_status_t ostraka_layout_policy(ostraka_layout_t layout, int32_t* policy);
ostraka_status_t ostraka_layout_num_tensors(ostraka_layout_t layout, int32_t* num_tensors);
/* All elements, padding included; elements of the tensors; the largest segment. */
ostraka_status_t ostraka_layout_size(ostraka_layout_t layout, int64_t* size);
ostraka_status_t ostraka_layout_payload(ostraka_layout_t layout, int64_t* payload);
ostraka_status_t ostraka_layout_segment_size(ostraka_layout_t layout, int64_t* segment_size);
ostraka_status_t ostraka_layout_num_segments(ostraka_layout_t layout, int32_t* num_segments);

/* Number of dimensions and extents of tensor `index`; `extents` has room for 8, or is NULL. */
ostraka_status_t ostraka_layout_tensor_shape(ostraka_layout_t layout, int32_t index, int32_t* ndim, int64_t* extents);
/* Absolute range of tensor `index`. */
ostraka_status_t ostraka_layout_tensor_range(ostraka_layout_t layout, int32_t index, int64_t* begin, int64_t* end);
/* Absolute range of segment `segment`. */
ostraka_status_t ostraka_layout_segment_range(ostraka_layout_t layout, int32_t segment, int64_t* begin, int64_t* end);
/* First and last segment that hold elements of tensor `index`; 0 and -1 for an empty tensor. */
ostraka_status_t ostraka_layout_owners(ostraka_layout_t layout, int32_t index, int32_t* first, int32_t* last);

/* Absolute range of the rank at `coordinates` of a mesh of `dims` axes of the given `sizes`, outer axis first. */
ostraka_status_t ostraka_layout_local_range(ostraka_layout_t layout, int32_t dims,
                                            const ostraka_placement_t* placements, const int32_t* sizes,
                                            const int32_t* coordinates, int64_t* begin, int64_t* end);

/* The dim-0 rows of tensor `index` inside the absolute range [begin, end): the first one and their number, 0 where
 * there are none. INVALID_ARGUMENT naming ostraka_layout_boxes where a row is cut. */
ostraka_status_t ostraka_layout_row_chunk(ostraka_layout_t layout, int32_t index, int64_t begin, int64_t end,
                                          int64_t* first_row, int64_t* num_rows);

/* The elements of tensor `index` inside the absolute range [begin, end) as rectangular boxes in the tensor's own
 * coordinates. `offsets` and `sizes` have room for max_boxes x ndim numbers, box after box; 2 x (ndim - 1) + 1 boxes (1
 * for a scalar) always suffice. `num_boxes` receives their number; with max_boxes 0 only that. SHAPE_MISMATCH when they
 * do not fit. */
ostraka_status_t ostraka_layout_boxes(ostraka_layout_t layout, int32_t index, int64_t begin, int64_t end,
                                      int32_t max_boxes, int64_t* offsets, int64_t* sizes, int32_t* num_boxes);

/* INVALID_ARGUMENT naming tensor, atom, offset and segment when a cut splits an atom. */
ostraka_status_t ostraka_layout_validate(ostraka_layout_t layout, int32_t num_atoms, const ostraka_atom_t* atoms);

/* Equal for equal layouts; compare it between ranks. */
ostraka_status_t ostraka_layout_hash(ostraka_layout_t layout, int64_t* hash);

/* One line of text, and one JSON object: policy and why it was chosen, payload, padding, segments, owners. Valid until
 * the layout is destroyed. */
ostraka_status_t ostraka_layout_report(ostraka_layout_t layout, const char** text);
ostraka_status_t ostraka_layout_report_json(ostraka_layout_t layout, const char** text);

#ifdef __cplusplus
}
#endif

#endif
