/* SPDX-License-Identifier: Apache-2.0 */
#include <mpi.h>
#include <stdio.h>

int open_c(void), close_c(void), open_cpp(void), close_cpp(void);

/* Neither is the other's: the C one starts first and stops first, the C++ one works on behind it. */
int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int opened = open_c() && open_cpp();
  const int closed = opened && close_c() && close_cpp();
  if (closed)
    printf("two consumers: right\n");
  MPI_Finalize();
  return closed ? 0 : 1;
}
