/* SPDX-License-Identifier: Apache-2.0 */
#ifndef OSTRAKA_RUNTIME_H
#define OSTRAKA_RUNTIME_H

#include <ostraka/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Starts the library. Local, counted: call it once per ostraka_finalize. MPI must be initialised; Kokkos is initialised
 * when nobody has done so yet. INVALID_STATE: MPI not initialised or already finalised, or Kokkos already finalised. */
ostraka_status_t ostraka_initialize(void);

/* Stops the library; the last call finalises Kokkos if ostraka_initialize started it. Local. INVALID_STATE: not
 * initialised. Handles that are left can be destroyed at any time, also after MPI_Finalize, when that is local; anything
 * else that communicates is INVALID_STATE then, as it is after MPI_Finalize or after the program's own Kokkos::finalize.
 * A program may end without destroying or stopping anything. */
ostraka_status_t ostraka_finalize(void);

/* 1 between ostraka_initialize and the last ostraka_finalize, else 0. */
int32_t ostraka_is_initialized(void);

/* "0.1.0". Static storage. */
const char* ostraka_version_string(void);

#ifdef __cplusplus
}
#endif

#endif
