/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of its own, started without mpiexec: layouts need neither MPI nor ostraka_initialize.
 */
#include "suites.h"

#include <mpi.h>

int main(void) {
  layout_suite();
  layout_policy_suite();
  layout_part_suite();
  layout_error_suite();
  int started = 1;
  CHECK_INT(MPI_Initialized(&started), MPI_SUCCESS);
  CHECK_INT(started, 0);
  CHECK_INT(ostraka_is_initialized(), 0);
  return check_finish_alone();
}
