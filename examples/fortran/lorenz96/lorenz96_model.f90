! SPDX-License-Identifier: Apache-2.0
! The simulation: the two-scale model of Lorenz (1996), and the coarse model that knows only its slow variables and asks
! a closure for what the fast ones do to them. Neither ranks nor networks here.
!
!   dX_k/dt = X_(k-1) (X_(k+1) - X_(k-2)) - X_k + F + U_k,    U_k = -(h c / b) sum of Y_j over the J fast variables of k
!   dY_j/dt = c b Y_(j+1) (Y_(j-1) - Y_(j+2)) - c Y_j + (h c / b) X_k,    X and Y are cyclic
module lorenz96_model
  use, intrinsic :: iso_fortran_env, only: int64, real64
  implicit none
  private
  public :: random_numbers, random_state, advance, coupling, advance_coarse

  integer, parameter, public :: num_slow = 8, num_fast = 32             ! K, and J for each of them
  integer, parameter, public :: num_variables = num_slow * (1 + num_fast)
  real(real64), parameter, public :: forcing = 20
  real(real64), parameter, public :: fine_step = 0.001_real64, coarse_step = 0.01_real64
  real(real64), parameter :: h = 1, c = 10, b = 10
  integer, parameter :: last = num_slow * num_fast

  ! Whatever gives the coarse model an estimate of U(slow variable, member) at X(slow variable, member).
  type, abstract, public :: closure_t
  contains
    procedure(estimate_interface), deferred :: estimate
  end type

  abstract interface
    subroutine estimate_interface(self, x, u)
      import :: closure_t, real64
      class(closure_t), intent(inout) :: self
      real(real64), intent(in) :: x(:, :)
      real(real64), intent(out) :: u(:, :)
    end subroutine
  end interface

  ! The simplest one: U is the same everywhere and always.
  type, extends(closure_t), public :: constant_t
    real(real64) :: value = 0
  contains
    procedure :: estimate => estimate_constant
  end type

contains

  subroutine estimate_constant(self, x, u)
    class(constant_t), intent(inout) :: self
    real(real64), intent(in) :: x(:, :)
    real(real64), intent(out) :: u(:, :)

    u = self%value
  end subroutine

  ! Evenly spread in (0, 1); the same ones for a seed on every machine.
  pure function random_numbers(seed, count) result(numbers)
    integer, intent(in) :: seed, count
    real(real64) :: numbers(count)
    integer(int64), parameter :: multiplier = 16807, modulus = 2147483647
    integer(int64) :: random
    integer :: i

    random = 1000 * seed + 1
    do i = 1, count + 3                              ! small seeds begin with small numbers: three are left out
      random = modulo(multiplier * random, modulus)
      numbers(max(i - 3, 1)) = real(random, real64) / modulus
    end do
  end function

  ! A state to start from: X in (-5, 10) and small Y, others for each seed.
  pure function random_state(seed) result(s)
    integer, intent(in) :: seed
    real(real64) :: s(num_variables)

    s = random_numbers(seed, num_variables)
    s(:num_slow) = 15 * s(:num_slow) - 5
    s(num_slow + 1:) = 0.2_real64 * s(num_slow + 1:) - 0.1_real64
  end function

  ! One step of the two-scale model by the classical Runge-Kutta method; s holds X, then Y.
  pure subroutine advance(s)
    real(real64), intent(inout) :: s(num_variables)
    real(real64), dimension(num_variables) :: k1, k2, k3, k4

    k1 = tendency(s)
    k2 = tendency(s + fine_step / 2 * k1)
    k3 = tendency(s + fine_step / 2 * k2)
    k4 = tendency(s + fine_step * k3)
    s = s + fine_step / 6 * (k1 + 2 * (k2 + k3) + k4)
  end subroutine

  pure function tendency(s) result(t)
    real(real64), intent(in) :: s(num_variables)
    real(real64) :: t(num_variables), y(0:last + 2)
    integer :: k, j, own

    y(0) = s(num_variables)
    y(1:last) = s(num_slow + 1:)
    y(last + 1:) = y(1:2)
    t(:num_slow) = slow_tendency(s(:num_slow)) + coupling(s)
    do k = 1, num_slow
      own = (k - 1) * num_fast
      do j = own + 1, own + num_fast
        t(num_slow + j) = c * b * y(j + 1) * (y(j - 1) - y(j + 2)) - c * y(j) + h * c / b * s(k)
      end do
    end do
  end function

  ! U: all that the slow variables feel of the fast ones.
  pure function coupling(s) result(u)
    real(real64), intent(in) :: s(num_variables)
    real(real64) :: u(num_slow)

    u = -(h * c / b) * sum(reshape(s(num_slow + 1:), [num_fast, num_slow]), dim=1)
  end function

  pure function slow_tendency(x) result(t)
    real(real64), intent(in) :: x(num_slow)
    real(real64) :: t(num_slow)
    integer :: i
    integer, parameter :: next(num_slow) = [(i, i = 2, num_slow), 1]
    integer, parameter :: before(num_slow) = [num_slow, (i, i = 1, num_slow - 1)]
    integer, parameter :: before_that(num_slow) = before(before)

    t = x(before) * (x(next) - x(before_that)) - x + forcing
  end function

  ! One step of the coarse model for all members x(:, member) at once, ten times as long as one of `advance`.
  subroutine advance_coarse(x, closure)
    real(real64), intent(inout) :: x(:, :)
    class(closure_t), intent(inout) :: closure
    real(real64), dimension(size(x, 1), size(x, 2)) :: k1, k2, k3, k4

    call coarse_tendency(x, closure, k1)
    call coarse_tendency(x + coarse_step / 2 * k1, closure, k2)
    call coarse_tendency(x + coarse_step / 2 * k2, closure, k3)
    call coarse_tendency(x + coarse_step * k3, closure, k4)
    x = x + coarse_step / 6 * (k1 + 2 * (k2 + k3) + k4)
  end subroutine

  subroutine coarse_tendency(x, closure, t)
    real(real64), intent(in) :: x(:, :)
    class(closure_t), intent(inout) :: closure
    real(real64), intent(out) :: t(:, :)
    integer :: member

    call closure%estimate(x, t)
    do member = 1, size(x, 2)
      t(:, member) = slow_tendency(x(:, member)) + t(:, member)
    end do
  end subroutine

end module
