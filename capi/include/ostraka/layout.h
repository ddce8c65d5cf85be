/* SPDX-License-Identifier: Apache-2.0
 *
 * A layout says where tensors stand in one flat buffer and how the buffer is cut into equal segments. Pure arithmetic:
 * local, needs no MPI. All numbers are elements.
 */
#ifndef OSTRAKA_LAYOUT_H
#define OSTRAKA_LAYOUT_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Dim-0 rows stay whole; padded by the rule of the reference system. `segments` is the product of all mesh axes. */
ostraka_status_t ostraka_layout_reference(int32_t num_tensors, const ostraka_shape_t* shapes, int32_t segments,
                                          ostraka_layout_t* layout);

/* Elements may be cut anywhere; least padding. `tensor_alignment`, `segment_multiple` >= 1 (1 asks for none). */
ostraka_status_t ostraka_layout_planned(int32_t num_tensors, const ostraka_shape_t* shapes, int32_t segments,
                                        int64_t tensor_alignment, int64_t segment_multiple, ostraka_layout_t* layout);

ostraka_status_t ostraka_layout_destroy(ostraka_layout_t* layout);

ostraka_status_t ostraka_layout_size(ostraka_layout_t layout, int64_t* size);
ostraka_status_t ostraka_layout_payload(ostraka_layout_t layout, int64_t* payload);
ostraka_status_t ostraka_layout_segment_size(ostraka_layout_t layout, int64_t* segment_size);

ostraka_status_t ostraka_layout_num_tensors(ostraka_layout_t layout, int32_t* num_tensors);

/* Number of dimensions and extents of tensor `index`; `extents` has room for 8, or is NULL. */
ostraka_status_t ostraka_layout_tensor_shape(ostraka_layout_t layout, int32_t index, int32_t* ndim, int64_t* extents);

/* Absolute range [begin, end) of tensor `index` (from 0). */
ostraka_status_t ostraka_layout_tensor_range(ostraka_layout_t layout, int32_t index, int64_t* begin, int64_t* end);

/* One line of text: payload, padding, segment, policy. Valid until the layout is destroyed. */
ostraka_status_t ostraka_layout_report(ostraka_layout_t layout, const char** text);

#ifdef __cplusplus
}
#endif

#endif
