! SPDX-License-Identifier: Apache-2.0
!! Meshes from both kinds of communicators.
program mesh_test
  use checks
  use ostraka
  use ostraka_mpi_f08
  implicit none

  call start()
  call check_line()
  call check_plane()
  call check_communicators()
  call finish()

contains

  subroutine check_line()
    type(ostraka_mesh_t) :: mesh
    integer(int32) :: number, ierr

    call mesh%create(MPI_COMM_WORLD%mpi_val)
    call mesh%rank(number, ierr)
    call expect(ierr == OSTRAKA_OK .and. number == my_rank, __LINE__)
    call mesh%size(number)
    call expect(number == num_ranks, __LINE__)
    call mesh%dims(number)
    call expect(number == 1, __LINE__)
    call mesh%axis('axis0', number)
    call expect(number == 1, __LINE__)
    call mesh%axis_size(1, number)
    call expect(number == num_ranks, __LINE__)
    call mesh%coordinate(1, number)
    call expect(number == my_rank, __LINE__)
    call mesh%destroy(ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call mesh%destroy(ierr)  ! a null handle
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
  end subroutine

  !! Two axes with names of different length; the last axis is the fastest.
  subroutine check_plane()
    type(ostraka_mesh_t) :: mesh
    integer(int32) :: number, inner

    inner = merge(2, 1, mod(num_ranks, 2) == 0)
    call mesh%create(MPI_COMM_WORLD%mpi_val, sizes=[num_ranks / inner, inner], names=['outside', 'in     '])
    call mesh%dims(number)
    call expect(number == 2, __LINE__)
    call mesh%axis('in', number)
    call expect(number == 2, __LINE__)
    call mesh%axis('outside  ', number)
    call expect(number == 1, __LINE__)
    call mesh%axis_size(1, number)
    call expect(number == num_ranks / inner, __LINE__)
    call mesh%axis_size(2, number)
    call expect(number == inner, __LINE__)
    call mesh%coordinate(1, number)
    call expect(number == my_rank / inner, __LINE__)
    call mesh%coordinate(2, number)
    call expect(number == mod(my_rank, inner), __LINE__)
    call mesh%destroy()
  end subroutine

  !! One generic name for integer and type(MPI_Comm), with all optional arguments.
  subroutine check_communicators()
    type(ostraka_mesh_t) :: mesh
    integer(int32) :: number, ierr

    call ostraka_mesh_create(mesh, MPI_COMM_WORLD)
    call mesh%size(number)
    call expect(number == num_ranks, __LINE__)
    call mesh%destroy()
    call ostraka_mesh_create(mesh, MPI_COMM_WORLD%mpi_val)
    call mesh%size(number)
    call expect(number == num_ranks, __LINE__)
    call mesh%destroy()
    call ostraka_mesh_create(mesh, MPI_COMM_SELF, sizes=[1, 1], names=['a', 'b'], ierr=ierr)
    call expect_status(ierr, OSTRAKA_OK, __LINE__)
    call mesh%axis('b', number)
    call expect(number == 2, __LINE__)
    call mesh%destroy()
    call ostraka_mesh_create(mesh, MPI_COMM_NULL, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'MPI_COMM_NULL')
  end subroutine
end program
