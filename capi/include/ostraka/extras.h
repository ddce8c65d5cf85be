/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program saves of its own beside a network: numbers, text and arrays that are equal on all ranks, and buffers
 * that are sharded over them, by name. Everything here is local.
 *
 * Setting a value replaces an earlier one of that name. INVALID_ARGUMENT: an empty name.
 */
#ifndef OSTRAKA_EXTRAS_H
#define OSTRAKA_EXTRAS_H

#include <ostraka/status.h>
#include <ostraka/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Creates an empty set, or destroys one and makes the handle NULL. Local. */
ostraka_status_t ostraka_extras_create(ostraka_extras_t* extras);
ostraka_status_t ostraka_extras_destroy(ostraka_extras_t* extras);

/* --- values: small, equal on all ranks, each of which keeps them; what rank 0 has is written */

/* A number under a name, which it replaces. Local. */
ostraka_status_t ostraka_extras_set_f64(ostraka_extras_t extras, const char* name, double value);
ostraka_status_t ostraka_extras_set_i64(ostraka_extras_t extras, const char* name, int64_t value);
/* UTF-8. */
ostraka_status_t ostraka_extras_set_text(ostraka_extras_t extras, const char* name, const char* text);
/* Copies an array of any type and shape, C order; `data` may be NULL where it has no elements. */
ostraka_status_t ostraka_extras_set_array(ostraka_extras_t extras, const char* name, int32_t dtype,
                                          ostraka_shape_t shape, const void* data);

/* Read values back, what was set or what a load put there. INVALID_ARGUMENT for an unknown name, listing those there
 * are; TYPE_MISMATCH for a value of another kind. */
ostraka_status_t ostraka_extras_f64(ostraka_extras_t extras, const char* name, double* value);
ostraka_status_t ostraka_extras_i64(ostraka_extras_t extras, const char* name, int64_t* value);
/* Valid until this value is set, the extras are loaded into, or destroyed; so is an array. */
ostraka_status_t ostraka_extras_text(ostraka_extras_t extras, const char* name, const char** text);
/* `dtype` is the type that the caller expects; a number is an array of one element. */
ostraka_status_t ostraka_extras_array(ostraka_extras_t extras, const char* name, int32_t dtype, const void** data,
                                      int64_t* count);

/* Type, number of dimensions and extents of a value, `extents` has room for 8, or is NULL; `is_text` 1: text, of type
 * U8 and as many elements as bytes. */
ostraka_status_t ostraka_extras_type(ostraka_extras_t extras, const char* name, int32_t* dtype, int32_t* is_text,
                                     int32_t* ndim, int64_t* extents);

/* 1 when there is a value of this name, else 0. */
ostraka_status_t ostraka_extras_has(ostraka_extras_t extras, const char* name, int32_t* has);
/* The number of values, and the name of value `index` (from 0, in the order in which they were first set). The name is
 * valid until the extras are loaded into or destroyed. */
ostraka_status_t ostraka_extras_num_values(ostraka_extras_t extras, int32_t* num_values);
ostraka_status_t ostraka_extras_name(ostraka_extras_t extras, int32_t index, const char** name);

/* --- buffers: arrays of the program that are sharded over the ranks, saved in global coordinates and loaded in place
 */

/* Adds a buffer on the ranks of the network's mesh, of any layout and placements but PARTIAL, with a name for each of
 * its tensors. Keeps its storage, as another handle would. SHAPE_MISMATCH for another number of names. */
ostraka_status_t ostraka_extras_add_buffer(ostraka_extras_t extras, ostraka_buffer_t buffer, int32_t num_names,
                                           const char* const* names);

#ifdef __cplusplus
}
#endif

#endif
