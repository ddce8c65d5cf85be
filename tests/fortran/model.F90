! SPDX-License-Identifier: Apache-2.0
!! Weights with known values, and the comparison of sharded gradients.
module model
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  use ostraka
  implicit none
  private
  public :: compare, ramp

contains

  !! Different values everywhere.
  function ramp(n) result(values)
    integer, intent(in) :: n
    real(real64) :: values(n)
    integer :: i

    values = [(n + 0.25d0 * i, i = 1, n)]
  end function

  !! This rank's elements of `whole`; all ranks together have all of it.
  subroutine compare(part, offset, whole, line)
    real(real64), intent(in) :: part(:), whole(:)
    integer(int64), intent(in) :: offset
    integer, intent(in) :: line
    real(real64), allocatable :: wanted(:)
    integer :: total

    total = size(part)
    wanted = whole(offset + 1:offset + total)
    call expect(all(abs(part - wanted) <= 1d-6 * abs(wanted)), line, 'a main gradient is wrong')
    call mpi_allreduce(MPI_IN_PLACE, total, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD)
    call expect(total == size(whole), line, 'a main gradient is not complete')
  end subroutine
end module
