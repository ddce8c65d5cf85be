! SPDX-License-Identifier: Apache-2.0
!! As much of mpi_f08 as the tests and examples use, on MPI's C interface: for a compiler that cannot read the module file
!! of the compiler that built MPI. Default integers are MPI_Fint, as everywhere in Ostraka's Fortran.
module mpi_f08
  use, intrinsic :: iso_c_binding, only: c_associated, c_double, c_int, c_loc, c_ptr
  implicit none
  private
  public :: MPI_Comm, mpi_init, mpi_initialized, mpi_finalize, mpi_comm_rank, mpi_comm_size, mpi_comm_split, &
    mpi_comm_free, mpi_barrier, mpi_bcast, mpi_allreduce, mpi_wtime
  public :: MPI_COMM_WORLD, MPI_COMM_SELF, MPI_COMM_NULL, MPI_IN_PLACE
  public :: operator(==), operator(/=)

  type, bind(c) :: MPI_Comm
    integer(c_int) :: mpi_val
  end type

  interface operator(==)
    module procedure same
  end interface
  interface operator(/=)
    module procedure other
  end interface

  ! Filled in by mpi_init, as a Fortran module cannot know the numbers of an MPI.
  type(MPI_Comm), bind(c, name='stand_in_world'), protected :: MPI_COMM_WORLD
  type(MPI_Comm), bind(c, name='stand_in_self'), protected :: MPI_COMM_SELF
  type(MPI_Comm), bind(c, name='stand_in_null'), protected :: MPI_COMM_NULL
  integer(c_int), target :: MPI_IN_PLACE = 0

  integer(c_int), parameter, public :: MPI_INTEGER = 0, MPI_INTEGER8 = 1, MPI_DOUBLE_PRECISION = 2, MPI_CHARACTER = 3
  integer(c_int), parameter, public :: MPI_SUM = 0, MPI_MAX = 1, MPI_MIN = 2
  integer(c_int), parameter, public :: MPI_UNDEFINED = -1  ! no color is negative

  interface
    subroutine c_init() bind(c, name='stand_in_init')
    end subroutine
    integer(c_int) function c_initialized() bind(c, name='stand_in_initialized')
      import
    end function
    subroutine c_finalize() bind(c, name='stand_in_finalize')
    end subroutine
    integer(c_int) function c_rank(comm) bind(c, name='stand_in_rank')
      import
      integer(c_int), value :: comm
    end function
    integer(c_int) function c_size(comm) bind(c, name='stand_in_size')
      import
      integer(c_int), value :: comm
    end function
    integer(c_int) function c_split(comm, color, key) bind(c, name='stand_in_split')
      import
      integer(c_int), value :: comm, color, key
    end function
    integer(c_int) function c_free(comm) bind(c, name='stand_in_free')
      import
      integer(c_int), value :: comm
    end function
    subroutine c_barrier(comm) bind(c, name='stand_in_barrier')
      import
      integer(c_int), value :: comm
    end subroutine
    subroutine c_bcast(buffer, count, datatype, root, comm) bind(c, name='stand_in_bcast')
      import
      type(c_ptr), value :: buffer
      integer(c_int), value :: count, datatype, root, comm
    end subroutine
    subroutine c_allreduce(sent, received, in_place, count, datatype, op, comm) bind(c, name='stand_in_allreduce')
      import
      type(c_ptr), value :: sent, received
      integer(c_int), value :: in_place, count, datatype, op, comm
    end subroutine
    real(c_double) function c_wtime() bind(c, name='stand_in_wtime')
      import
    end function
  end interface

contains

  logical function same(a, b)
    type(MPI_Comm), intent(in) :: a, b

    same = a%mpi_val == b%mpi_val
  end function

  logical function other(a, b)
    type(MPI_Comm), intent(in) :: a, b

    other = a%mpi_val /= b%mpi_val
  end function

  subroutine mpi_init()
    call c_init()
  end subroutine

  subroutine mpi_initialized(flag)
    logical, intent(out) :: flag

    flag = c_initialized() /= 0
  end subroutine

  subroutine mpi_finalize()
    call c_finalize()
  end subroutine

  subroutine mpi_comm_rank(comm, rank)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: rank

    rank = c_rank(comm%mpi_val)
  end subroutine

  subroutine mpi_comm_size(comm, size)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(out) :: size

    size = c_size(comm%mpi_val)
  end subroutine

  subroutine mpi_comm_split(comm, color, key, new_comm)
    type(MPI_Comm), intent(in) :: comm
    integer, intent(in) :: color, key
    type(MPI_Comm), intent(out) :: new_comm

    new_comm%mpi_val = c_split(comm%mpi_val, color, key)
  end subroutine

  subroutine mpi_comm_free(comm)
    type(MPI_Comm), intent(inout) :: comm

    comm%mpi_val = c_free(comm%mpi_val)
  end subroutine

  subroutine mpi_barrier(comm)
    type(MPI_Comm), intent(in) :: comm

    call c_barrier(comm%mpi_val)
  end subroutine

  subroutine mpi_bcast(buffer, count, datatype, root, comm)
    type(*), dimension(..), target, intent(inout) :: buffer
    integer, intent(in) :: count, datatype, root
    type(MPI_Comm), intent(in) :: comm

    call c_bcast(c_loc(buffer), count, datatype, root, comm%mpi_val)
  end subroutine

  subroutine mpi_allreduce(sent, received, count, datatype, op, comm)
    type(*), dimension(..), target, intent(in) :: sent
    type(*), dimension(..), target, intent(inout) :: received
    integer, intent(in) :: count, datatype, op
    type(MPI_Comm), intent(in) :: comm

    call c_allreduce(c_loc(sent), c_loc(received), merge(1, 0, c_associated(c_loc(sent), c_loc(MPI_IN_PLACE))), count, &
      datatype, op, comm%mpi_val)
  end subroutine

  real(c_double) function mpi_wtime()
    mpi_wtime = c_wtime()
  end function
end module
