/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <stdint.h>

int32_t ostraka_fortran_comm_size(MPI_Fint comm);

/* Ranks of a Fortran communicator for the default of mesh%create; 1 where MPI cannot be asked, so that the library
 * itself says what is wrong. In C since MPI_Comm_f2c is a macro in some MPI libraries. */
int32_t ostraka_fortran_comm_size(MPI_Fint comm) {
  int initialized = 0, finalized = 0, size = 1;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (initialized && !finalized) {
    MPI_Comm c_comm = MPI_Comm_f2c(comm);
    if (c_comm != MPI_COMM_NULL) MPI_Comm_size(c_comm, &size);
  }
  return size;
}
