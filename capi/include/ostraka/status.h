/* SPDX-License-Identifier: Apache-2.0
 *
 * Every function of the C interface returns a status. The text of the last failure is kept per thread.
 */
#ifndef OSTRAKA_STATUS_H
#define OSTRAKA_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t ostraka_status_t;

#define OSTRAKA_OK 0                /* success */
#define OSTRAKA_INVALID_ARGUMENT 10 /* an argument is outside of what the operation accepts */
#define OSTRAKA_INVALID_STATE 11    /* the operation is not allowed in the present phase or state */
#define OSTRAKA_INVALID_HANDLE 12   /* a handle is null, destroyed or of another kind */
#define OSTRAKA_SHAPE_MISMATCH 13   /* a shape, count or layout differs from the expected one */
#define OSTRAKA_TYPE_MISMATCH 14    /* a data type differs from the expected one */
#define OSTRAKA_NOT_SUPPORTED 20    /* legal, but not provided by this version or build */
#define OSTRAKA_OUT_OF_MEMORY 30    /* memory could not be allocated */
#define OSTRAKA_INPUT_OUTPUT 40     /* a file could not be read or written */
#define OSTRAKA_COMMUNICATION 50    /* the message passing library reported an error */
#define OSTRAKA_RANKS_DISAGREE 51   /* ranks called a collective operation with different arguments */
#define OSTRAKA_TIME_OUT 52         /* a peer did not arrive in time */
#define OSTRAKA_USER_FAILURE 53     /* the caller reported a failure of its own inside a step */
#define OSTRAKA_FAILED 60           /* the object failed earlier and can only be destroyed */
#define OSTRAKA_INTERNAL 90         /* a defect of the library */

/* The name of a status ("OK", "INVALID_ARGUMENT", ...); "UNKNOWN" for other numbers. Static storage. */
const char* ostraka_status_name(ostraka_status_t status);

/* One sentence that says what the family means. Static storage. */
const char* ostraka_status_meaning(ostraka_status_t status);

/* What the last failed call of this thread expected and found; "" when there was none. Valid until this thread's next
 * failing call or ostraka_error_clear. */
const char* ostraka_last_error(void);

/* Forgets the text of the last failure of this thread. */
void ostraka_error_clear(void);

#ifdef __cplusplus
}
#endif

#endif
