! SPDX-License-Identifier: Apache-2.0
!! The library before MPI_Init, after MPI_Finalize and before its own start is an error with a text, not a crash.
program before_mpi_test
  use checks
  implicit none
  type(ostraka_mesh_t) :: mesh
  integer(int32) :: ierr

  call ostraka_initialize(ierr)
  call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'MPI')
  call expect(.not. ostraka_is_initialized(), __LINE__)
  call mesh%create(0, ierr=ierr)
  call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'MPI')
  call ostraka_finalize(ierr)
  call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)

  call mpi_init()
  call mesh%create(MPI_COMM_WORLD%mpi_val, ierr=ierr)
  call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
  call ostraka_initialize()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call mesh%destroy()
  call ostraka_finalize()
  call mpi_finalize()

  call ostraka_initialize(ierr)
  call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'MPI')
  call mesh%create(MPI_COMM_WORLD%mpi_val, ierr=ierr)
  call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'MPI')
  if (failures > 0) error stop 1, quiet=.true.
end program
