! SPDX-License-Identifier: Apache-2.0
!! A network for tests of ddp: trained in plain Fortran on all points, and its passes on this rank's points.
module ddp_network
  use, intrinsic :: iso_fortran_env, only: real64
  use checks
  use ostraka
  implicit none
  private
  public :: hidden, num_weights, num_steps
  public :: net_t, first_weights, flat, train_plainly, add_network, weights_of, run_pass

  integer, parameter :: inputs = 3, hidden = 5, outputs = 2, points = 13, num_steps = 4
  integer, parameter :: num_weights = inputs * hidden + hidden + hidden * outputs + outputs

  !! Weights of a network, or something for each of them.
  type :: net_t
    real(real64) :: w1(inputs, hidden) = 0, b1(hidden) = 0, w2(hidden, outputs) = 0, b2(outputs) = 0
  end type

contains

  !! --- plain arithmetic

  pure function first_weights() result(net)
    type(net_t) :: net
    integer :: i

    net%w1 = reshape([(sin(12.9d0 * i), i = 1, inputs * hidden)], [inputs, hidden])
    net%b1 = [(0.1d0 * cos(1d0 * i), i = 1, hidden)]
    net%w2 = reshape([(sin(7.3d0 * i), i = 1, hidden * outputs)], [hidden, outputs])
    net%b2 = [(0.1d0 * i, i = 1, outputs)]
  end function

  !! Adds what points first + 1 ... first + count of a micro-batch contribute to the gradient of the mean square error.
  pure subroutine add_gradients(net, step, batch, first, count, scale, g)
    type(net_t), intent(in) :: net
    integer, intent(in) :: step, batch, first, count
    real(real64), intent(in) :: scale
    type(net_t), intent(inout) :: g
    real(real64) :: x(inputs), h(hidden), e(outputs), d(hidden)
    integer :: p, i

    do p = first + 1, first + count
      x = [(sin(1.7d0 * p + 0.9d0 * i + step + 5 * batch), i = 1, inputs)]
      h = tanh(matmul(x, net%w1) + net%b1)
      e = scale * (matmul(h, net%w2) + net%b2 - [x(1) * x(2), x(3) - 0.5d0])
      d = matmul(net%w2, e) * (1 - h**2)
      g%w2 = g%w2 + spread(h, 2, outputs) * spread(e, 1, hidden)
      g%b2 = g%b2 + e
      g%w1 = g%w1 + spread(x, 2, hidden) * spread(d, 1, inputs)
      g%b1 = g%b1 + d
    end do
  end subroutine

  pure function flat(net) result(values)
    type(net_t), intent(in) :: net
    real(real64) :: values(num_weights)

    values = [reshape(net%w1, [size(net%w1)]), net%b1, reshape(net%w2, [size(net%w2)]), net%b2]
  end function

  pure function shaped(values) result(net)
    real(real64), intent(in) :: values(num_weights)
    type(net_t) :: net
    integer, parameter :: ends(3) = [inputs * hidden, inputs * hidden + hidden, num_weights - outputs]

    net%w1 = reshape(values(:ends(1)), [inputs, hidden])
    net%b1 = values(ends(1) + 1:ends(2))
    net%w2 = reshape(values(ends(2) + 1:ends(3)), [hidden, outputs])
    net%b2 = values(ends(3) + 1:)
  end function

  !! All points, updated as the optimizers say.
  pure function train_plainly(optimizer, batches) result(net)
    character(*), intent(in) :: optimizer
    integer, intent(in) :: batches
    type(net_t) :: net, gradient
    real(real64) :: w(num_weights), g(num_weights), m(num_weights), v(num_weights)
    integer :: step, batch

    net = first_weights()
    m = 0
    v = 0
    do step = 1, num_steps
      gradient = net_t()
      do batch = 1, batches
        call add_gradients(net, step, batch, 0, points, 1d0 / (points * batches), gradient)
      end do
      w = flat(net)
      g = flat(gradient)
      select case (optimizer)
      case ('by hand')
        w = w - 0.1d0 * g
      case ('sgd')
        m = 0.9d0 * m + g + 1d-3 * w
        w = w - 0.05d0 * m
      case ('adamw')
        m = 0.8d0 * m + 0.2d0 * g
        v = 0.95d0 * v + 0.05d0 * g**2
        w = w - 0.02d0 * 0.1d0 * w - 0.02d0 * (m / (1 - 0.8d0**step)) / (sqrt(v / (1 - 0.95d0**step)) + 1d-6)
      end select
      net = shaped(w)
    end do
  end function

  !! --- the library

  subroutine add_network(ddp)
    type(ostraka_ddp_t), intent(in) :: ddp
    type(net_t) :: net

    call ddp%add_parameter('hidden.weight', [inputs, hidden])
    call ddp%add_parameter('hidden.bias', [hidden])
    call ddp%add_parameter('output.weight', [hidden, outputs])
    call ddp%add_parameter('output.bias', [outputs])
    call ddp%finalize()
    net = first_weights()
    call ddp%set_parameter('hidden.weight', net%w1)
    call ddp%set_parameter('hidden.bias', net%b1)
    call ddp%set_parameter('output.weight', net%w2)
    call ddp%set_parameter('output.bias', net%b2)
  end subroutine

  function weights_of(ddp) result(net)
    type(ostraka_ddp_t), intent(in) :: ddp
    type(net_t) :: net
    real(real64), pointer :: w1(:,:), b1(:), w2(:,:), b2(:)

    call ddp%parameter('hidden.weight', w1)
    call ddp%parameter('hidden.bias', b1)
    call ddp%parameter('output.weight', w2)
    call ddp%parameter('output.bias', b2)
    net = net_t(w1, b1, w2, b2)
  end function

  !! This rank's points of a micro-batch; half of the gradients with beta, half without.
  subroutine run_pass(ddp, step, batch, batches, is_ready_said)
    type(ostraka_ddp_t), intent(in) :: ddp
    integer, intent(in) :: step, batch, batches
    logical, intent(in) :: is_ready_said
    type(net_t) :: net, part
    real(real64), pointer :: g1(:,:), gb1(:), g2(:,:), gb2(:)
    real(real64) :: beta
    integer :: first, count

    call share(points, first, count)
    call ddp%pre_forward('hidden')
    call ddp%pre_forward('output')
    net = weights_of(ddp)
    call add_gradients(net, step, batch, first, count, 1d0 / (points * batches), part)
    call ddp%gradient('output.bias', gb2)
    gb2 = gb2 + part%b2
    if (is_ready_said) call ddp%gradient_ready('output.bias')
    call ddp%gradient('output.weight', g2, beta)
    call expect(nint(beta) == merge(0, 1, batch == 1), __LINE__)
    if (beta == 0) g2 = 0
    g2 = g2 + part%w2
    if (is_ready_said) call ddp%gradient_ready('output.weight')
    call ddp%gradient('hidden.bias', gb1, beta)
    if (beta == 0) gb1 = 0
    gb1 = gb1 + part%b1
    if (is_ready_said) call ddp%gradient_ready('hidden.bias')
    call ddp%gradient('hidden.weight', g1)
    g1 = g1 + part%w1
    if (is_ready_said) call ddp%gradient_ready('hidden.weight')
  end subroutine
end module
