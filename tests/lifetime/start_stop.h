/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of a start and stop scenario, one letter each; see scenarios.py for what is expected of each.
 *   M m  MPI_Init, MPI_Finalize                     K k  Kokkos::initialize, Kokkos::finalize by the program
 *   I i  the library is initialised, finalised      C    a mesh, a buffer, a scheduler and an optimizer are created
 *   U    a forward pass of the scheduler            G    the buffer is gathered
 *   D    all of them are destroyed
 */
#ifndef OSTRAKA_TESTS_START_STOP_H
#define OSTRAKA_TESTS_START_STOP_H

#ifdef __cplusplus
extern "C" {
#endif

void start_stop_kokkos_initialize(void);
void start_stop_kokkos_finalize(void);

#ifdef __cplusplus
}
#endif

#endif
