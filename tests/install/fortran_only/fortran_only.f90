! SPDX-License-Identifier: Apache-2.0
program fortran_only
  use mpi_f08
  use ostraka
  implicit none
  type(ostraka_mesh_t) :: mesh
  integer :: ranks

  call mpi_init()
  call ostraka_initialize()
  call mesh%create(mpi_comm_world%mpi_val)
  call mesh%size(ranks)
  print '(a, i0, a)', 'mesh of ', ranks, ' ranks'
  call mesh%destroy()
  call ostraka_finalize()
  call mpi_finalize()
end program
