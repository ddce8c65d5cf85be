! SPDX-License-Identifier: Apache-2.0
! The random numbers of the reference: every rank draws the same ones, so nothing has to be sent.
module steam_random
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  private

  integer(int64), parameter :: multiplier = 16807_int64, modulus = 2147483647_int64

  type, public :: random_t
    integer(int64) :: state = 12345_int64
  contains
    procedure, private :: next
    procedure :: fill
    procedure :: shuffle
  end type

contains

  integer(int64) function next(random)
    class(random_t), intent(inout) :: random

    random%state = modulo(multiplier * random%state, modulus)  ! 46 bits at most: no overflow
    next = random%state
  end function

  ! Fills w(fan_in, fan_out) with numbers in (-bound, bound), the first index fastest.
  subroutine fill(random, bound, w)
    class(random_t), intent(inout) :: random
    real(real64), intent(in) :: bound
    real(real64), intent(out) :: w(:, :)
    integer :: i, j

    do j = 1, size(w, 2)
      do i = 1, size(w, 1)
        w(i, j) = (2 * (real(random%next(), real64) / real(modulus, real64)) - 1) * bound
      end do
    end do
  end subroutine

  subroutine shuffle(random, order)
    class(random_t), intent(inout) :: random
    integer, intent(inout) :: order(:)
    integer :: i, j, held

    do i = size(order), 2, -1
      j = 1 + int(modulo(random%next(), int(i, int64)))
      held = order(i)
      order(i) = order(j)
      order(j) = held
    end do
  end subroutine

end module
