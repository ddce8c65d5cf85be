! SPDX-License-Identifier: Apache-2.0
! The temperature in a square plate, cold but for its upper edge, which is heated like sin(pi x), and a network of one
! hidden layer that is to learn it from measurements on a grid. It knows of no ranks.
module plate
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  private
  public :: num_points, num_weights, first_weights, add_gradient, mean_square_error

  integer, parameter :: grid = 20, num_points = grid**2
  integer, parameter :: hidden = 24, num_weights = 4 * hidden + 1
  real(real64), parameter :: pi = acos(-1._real64)

contains

  pure function position(i) result(x)
    integer, intent(in) :: i
    real(real64) :: x(2)

    x = [modulo(i - 1, grid) + 0.5_real64, (i - 1) / grid + 0.5_real64] / grid
  end function

  ! The solution of Laplace's equation for these edges.
  pure real(real64) function temperature(x)
    real(real64), intent(in) :: x(2)

    temperature = sin(pi * x(1)) * sinh(pi * x(2)) / sinh(pi)
  end function

  pure subroutine first_weights(w)
    real(real64), intent(out) :: w(num_weights)
    integer :: i

    w = [(sin(78.233_real64 * i**2), i = 1, num_weights)]
    w(3 * hidden + 1:) = w(3 * hidden + 1:) / sqrt(real(hidden, real64))
  end subroutine

  ! In w stand, one behind the other: the weights of x and of y, the offsets, the weights of the result, its offset.
  pure subroutine predict(w, x, h, y)
    real(real64), intent(in) :: w(num_weights), x(2)
    real(real64), intent(out) :: h(hidden), y

    h = tanh(w(:hidden) * x(1) + w(hidden + 1:2 * hidden) * x(2) + w(2 * hidden + 1:3 * hidden))
    y = dot_product(w(3 * hidden + 1:4 * hidden), h) + w(num_weights)
  end subroutine

  ! Adds what point i contributes to the gradient of the mean square error.
  pure subroutine add_gradient(i, w, g)
    integer, intent(in) :: i
    real(real64), intent(in) :: w(num_weights)
    real(real64), intent(inout) :: g(num_weights)
    real(real64) :: x(2), h(hidden), y, error, d(hidden)

    x = position(i)
    call predict(w, x, h, y)
    error = 2 * (y - temperature(x)) / num_points
    d = error * w(3 * hidden + 1:4 * hidden) * (1 - h**2)
    g = g + [d * x(1), d * x(2), d, error * h, error]
  end subroutine

  pure real(real64) function mean_square_error(w) result(mean)
    real(real64), intent(in) :: w(num_weights)
    real(real64) :: x(2), h(hidden), y
    integer :: i

    mean = 0
    do i = 1, num_points
      x = position(i)
      call predict(w, x, h, y)
      mean = mean + (y - temperature(x))**2 / num_points
    end do
  end function
end module
