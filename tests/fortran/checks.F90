! SPDX-License-Identifier: Apache-2.0
!! Counts what fails on any rank: `call expect(condition, __LINE__)`.
module checks
  use, intrinsic :: iso_fortran_env, only: error_unit, int32
  use mpi_f08
  use ostraka
  implicit none
  public

  integer :: my_rank = -1, num_ranks = 0, failures = 0, checked = 0

contains

  !! Starts MPI and the library.
  subroutine start()
    call mpi_init()
    call mpi_comm_rank(MPI_COMM_WORLD, my_rank)
    call mpi_comm_size(MPI_COMM_WORLD, num_ranks)
    call ostraka_initialize()
  end subroutine

  !! Stops both; the program fails on all ranks if a check failed on one.
  subroutine finish()
    integer :: anywhere

    call ostraka_finalize()
    call mpi_allreduce(failures, anywhere, 1, MPI_INTEGER, MPI_MAX, MPI_COMM_WORLD)
    if (my_rank == 0) &
      print '(i0, a, i0, a)', checked, ' checks on rank 0 of ', num_ranks, merge(': failed', ': passed', anywhere > 0)
    call mpi_finalize()
    if (anywhere > 0) error stop 1, quiet=.true.
  end subroutine

  !! The end of a program that runs without MPI and has not started the library.
  subroutine finish_alone()
    logical :: started

    call mpi_initialized(started)
    call expect(.not. started .and. .not. ostraka_is_initialized(), __LINE__)
    print '(i0, 2a)', checked, ' checks', merge(': failed', ': passed', failures > 0)
    if (failures > 0) error stop 1, quiet=.true.
  end subroutine

  subroutine expect(condition, line, what)
    logical, intent(in) :: condition
    integer, intent(in) :: line
    character(*), intent(in), optional :: what
    character(:), allocatable :: text

    checked = checked + 1
    if (condition) return
    failures = failures + 1
    text = 'the check failed; last error: ' // ostraka_last_error()
    if (present(what)) text = what
    write(error_unit, '(a, i0, a, i0, 2a)') 'rank ', my_rank, ', line ', line, ': ', text
  end subroutine

  !! The operation ended with the status `wanted`, and its text holds `fragment`.
  subroutine expect_status(ierr, wanted, line, fragment)
    integer(int32), intent(in) :: ierr, wanted
    integer, intent(in) :: line
    character(*), intent(in), optional :: fragment
    character(:), allocatable :: text

    text = ostraka_last_error()
    call expect(ierr == wanted, line, &
      ostraka_status_name(ierr) // ' instead of ' // ostraka_status_name(wanted) // ': ' // text)
    if (present(fragment)) &
      call expect(index(text, fragment) > 0, line, '"' // fragment // '" is not in: ' // text)
  end subroutine

  !! This rank's part of `total` things that are dealt out in equal segments.
  pure subroutine share(total, first, count)
    integer, intent(in) :: total
    integer, intent(out) :: first, count
    integer :: each

    each = (total + num_ranks - 1) / num_ranks
    first = min(my_rank * each, total)
    count = min(each, total - first)
  end subroutine
end module
