! SPDX-License-Identifier: Apache-2.0
!! An error without `ierr` ends the program; ctest looks for the message and for the failure.
program stop_test
  use checks
  implicit none
  type(ostraka_mesh_t) :: mesh

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val, sizes=[num_ranks, 7])
  print '(a)', 'the program went on'
  call finish()
end program
