! SPDX-License-Identifier: Apache-2.0
!! Adds the form for type(MPI_Comm) to the generic ostraka_mesh_create; use it together with the module `ostraka`.
!! In a file of its own since not every compiler can read the MPI library's mpi_f08 module.
module ostraka_mpi_f08
  use, intrinsic :: iso_fortran_env, only: int32
  use mpi_f08, only: MPI_Comm
  use ostraka, only: ostraka_mesh_create, ostraka_mesh_t
  implicit none
  private
  public :: ostraka_mesh_create

  interface ostraka_mesh_create
    module procedure create_f08
  end interface

contains

  !! `call ostraka_mesh_create(mesh, MPI_COMM_WORLD)`: as mesh%create.
  subroutine create_f08(mesh, comm, sizes, names, device, ierr)
    class(ostraka_mesh_t), intent(out) :: mesh
    type(MPI_Comm), intent(in) :: comm
    integer(int32), intent(in), optional :: sizes(:)
    character(*), intent(in), optional :: names(:)
    integer(int32), intent(in), optional :: device
    integer(int32), intent(out), optional :: ierr

    call mesh%create(comm%mpi_val, sizes, names, device, ierr)
  end subroutine
end module
