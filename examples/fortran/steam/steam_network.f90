! SPDX-License-Identifier: Apache-2.0
! The arithmetic of a dense layer, z = transpose(w) x + b, in plain Fortran: it knows neither ranks nor shards.
! Arrays are x(fan_in, rows), z(fan_out, rows), w(fan_in, fan_out): each row of the batch is contiguous.
module steam_network
  use, intrinsic :: iso_fortran_env, only: real64
  implicit none
  private
  public :: dense, input_gradient, add_weight_gradient, add_bias_gradient

contains

  pure function dense(w, b, x) result(z)
    real(real64), intent(in), contiguous :: w(:, :), b(:), x(:, :)
    real(real64) :: z(size(w, 2), size(x, 2))
    integer :: row

    z = matmul(transpose(w), x)
    do row = 1, size(z, 2)
      z(:, row) = z(:, row) + b
    end do
  end function

  ! In the backward functions delta(fan_out, rows) is the gradient of the loss with respect to z.
  pure function input_gradient(w, delta) result(g)
    real(real64), intent(in), contiguous :: w(:, :), delta(:, :)
    real(real64) :: g(size(w, 1), size(delta, 2))

    g = matmul(w, delta)
  end function

  ! g = beta * g + contribution; with beta = 0 the old g is not read, since it may hold anything, NaN included.
  pure subroutine add_weight_gradient(x, delta, beta, g)
    real(real64), intent(in), contiguous :: x(:, :), delta(:, :)
    real(real64), intent(in) :: beta
    real(real64), intent(inout), contiguous :: g(:, :)

    if (beta > 0) then
      g = beta * g + matmul(x, transpose(delta))
    else
      g = matmul(x, transpose(delta))
    end if
  end subroutine

  pure subroutine add_bias_gradient(delta, beta, g)
    real(real64), intent(in), contiguous :: delta(:, :)
    real(real64), intent(in) :: beta
    real(real64), intent(inout), contiguous :: g(:)

    if (beta > 0) then
      g = beta * g + sum(delta, dim=2)
    else
      g = sum(delta, dim=2)
    end if
  end subroutine

end module
