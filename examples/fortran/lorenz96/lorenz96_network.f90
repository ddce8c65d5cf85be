! SPDX-License-Identifier: Apache-2.0
! The network that learns U_k from X_(k-2) ... X_(k+2). All that this example has to do with Ostraka is in this file:
! weights, gradients and optimizer state are sharded over the ranks, whose simulations train one network together.
module lorenz96_network
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08, only: mpi_comm, mpi_comm_size
  use lorenz96_model, only: closure_t, random_numbers
  use ostraka
  implicit none
  private

  integer, parameter :: num_layers = 3, reach = 2
  integer, parameter :: width(0:num_layers) = [2 * reach + 1, 32, 32, 1]
  real(real64), parameter :: first_rate = 1e-2_real64

  type :: activation_t
    real(real64), allocatable :: a(:, :)  ! (unit, sample)
  end type

  type, extends(closure_t), public :: network_t
    private
    type(ostraka_mesh_t) :: mesh
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer(num_layers)
    type(ostraka_optimizer_t) :: adamw
    type(activation_t) :: activation(0:num_layers)
    real(real64) :: x_mean, x_deviation, u_mean, u_deviation  ! what the network sees has mean 0 and deviation 1
  contains
    procedure, public :: create
    procedure, public :: set_scales
    procedure, public :: set_learning_rate
    procedure, public :: train
    procedure, public :: begin_use
    procedure, public :: estimate
    procedure, public :: end_use
    procedure, public :: destroy
    procedure, private :: forward
    procedure, private :: backward
  end type

contains

  ! Collective, as are all others but set_scales and estimate.
  subroutine create(self, comm)
    class(network_t), intent(inout) :: self
    type(mpi_comm), intent(in) :: comm
    integer :: recipe, l

    call create_mesh(comm, self%mesh, recipe)
    ! Ranks may have different numbers of members, so their gradients are not equally heavy: they are summed, and
    ! train() divides by the samples of all ranks.
    call self%context%create(self%mesh, recipe=recipe, reduction=ostraka_sum)
    do l = 1, num_layers
      call self%context%add_module('layer ' // achar(iachar('0') + l), self%layer(l))
      call self%layer(l)%add_parameter('weight', width(l - 1:l), dtype=ostraka_f64)
      call self%layer(l)%add_parameter('bias', [width(l)], dtype=ostraka_f64)
      call self%layer(l)%build()                     ! all parameters are zero
      call self%layer(l)%set_parameter('weight', first_weights(l))
    end do
    call self%context%finalize()
    call self%adamw%create_adamw(self%context, weight_decay=1e-4_real64)
  end subroutine

  ! Where the ranks make two equal groups of two or more, each group shards a copy of the network (HSDP). Else all ranks
  ! shard a single one.
  subroutine create_mesh(comm, mesh, recipe)
    type(mpi_comm), intent(in) :: comm
    type(ostraka_mesh_t), intent(out) :: mesh
    integer, intent(out) :: recipe
    integer :: ranks

    call mpi_comm_size(comm, ranks)
    if (ranks >= 4 .and. modulo(ranks, 2) == 0) then
      call mesh%create(comm%mpi_val, [2, ranks / 2], ['copy ', 'shard'])
      recipe = ostraka_hsdp
    else
      call mesh%create(comm%mpi_val)
      recipe = ostraka_zero_3
    end if
  end subroutine

  ! The same on every rank, whose library keeps this rank's part.
  function first_weights(layer) result(w)
    integer, intent(in) :: layer
    real(real64) :: w(width(layer - 1), width(layer))

    w = reshape(random_numbers(seed=-layer, count=size(w)), shape(w))
    w = sqrt(6 / real(sum(shape(w)), real64)) * (2 * w - 1)
  end function

  subroutine set_scales(self, x_mean, x_deviation, u_mean, u_deviation)
    class(network_t), intent(inout) :: self
    real(real64), intent(in) :: x_mean, x_deviation, u_mean, u_deviation

    self%x_mean = x_mean
    self%x_deviation = x_deviation
    self%u_mean = u_mean
    self%u_deviation = u_deviation
  end subroutine

  ! `left`: the part of the training that is still to come, from 1 to 0.
  subroutine set_learning_rate(self, left)
    class(network_t), intent(inout) :: self
    real(real64), intent(in) :: left

    call self%adamw%set_learning_rate(first_rate * left)
  end subroutine

  ! One step with x and u (slow variable, member) of this rank's members, of num_members on all ranks. Adds this rank's
  ! squared errors before the update, in units of the variance of u, to `squares`.
  subroutine train(self, x, u, num_members, squares)
    class(network_t), intent(inout) :: self
    real(real64), intent(in) :: x(:, :), u(:, :)
    integer, intent(in) :: num_members
    real(real64), intent(inout) :: squares
    real(real64) :: delta(1, size(u))

    call self%context%zero_grad()
    call self%forward(x)
    delta = self%activation(num_layers)%a - reshape((u - self%u_mean) / self%u_deviation, shape(delta))
    squares = squares + sum(delta**2)
    call self%backward(2 * delta / (size(u, 1) * num_members))
    call self%adamw%step()                           ! each rank updates its shard
  end subroutine

  subroutine forward(self, x)
    class(network_t), intent(inout) :: self
    real(real64), intent(in) :: x(:, :)
    real(real64), pointer, contiguous :: w(:, :), b(:)
    integer :: l

    self%activation(0)%a = (neighbourhoods(x) - self%x_mean) / self%x_deviation
    do l = 1, num_layers
      call self%layer(l)%pre_forward()               ! weights whole here, the next layer's are on their way
      call self%layer(l)%parameter('weight', w)
      call self%layer(l)%parameter('bias', b)
      associate (a => self%activation(l - 1)%a)
        self%activation(l)%a = matmul(transpose(w), a) + spread(b, dim=2, ncopies=size(a, 2))
      end associate
      if (l < num_layers) self%activation(l)%a = tanh(self%activation(l)%a)
      call self%layer(l)%post_forward()              ! back to shards: w and b are dead
    end do
  end subroutine

  ! From `last_delta`, the gradient of the loss with respect to the output, to the reduced gradients of all weights.
  subroutine backward(self, last_delta)
    class(network_t), intent(inout) :: self
    real(real64), intent(in) :: last_delta(:, :)
    real(real64), pointer, contiguous :: w(:, :), gw(:, :), gb(:)
    real(real64), allocatable :: delta(:, :)
    real(real64) :: beta                             ! is 0, as every layer is used once in a step: assign to gradients
    integer :: l

    allocate(delta, source=last_delta)
    do l = num_layers, 1, -1
      associate (a => self%activation(l - 1)%a)
        call self%layer(l)%pre_backward()            ! weights whole again, the layer below is on its way
        call self%layer(l)%gradient('weight', gw, beta)
        gw = matmul(a, transpose(delta))
        call self%layer(l)%gradient('bias', gb, beta)
        gb = sum(delta, dim=2)
        if (l > 1) then
          call self%layer(l)%parameter('weight', w)
          delta = matmul(w, delta) * (1 - a**2)
        end if
        call self%layer(l)%post_backward()           ! the reduction over ranks starts, weights are released
      end associate
    end do
    call self%context%finish_backward()              ! one status for all ranks
  end subroutine

  ! Between begin_use and end_use each rank calls `estimate` as often as it likes: the weights are whole everywhere.
  subroutine begin_use(self)
    class(network_t), intent(inout) :: self

    call self%context%begin_inference()
  end subroutine

  subroutine estimate(self, x, u)
    class(network_t), intent(inout) :: self
    real(real64), intent(in) :: x(:, :)
    real(real64), intent(out) :: u(:, :)

    call self%forward(x)
    u = self%u_mean + self%u_deviation * reshape(self%activation(num_layers)%a, shape(u))
  end subroutine

  subroutine end_use(self)
    class(network_t), intent(inout) :: self

    call self%context%end_inference()
  end subroutine

  subroutine destroy(self)
    class(network_t), intent(inout) :: self

    call self%adamw%destroy()
    call self%context%destroy()
    call self%mesh%destroy()
  end subroutine

  ! Column k of member m, of all columns of all members: X_(k-reach) ... X_(k+reach).
  pure function neighbourhoods(x) result(a)
    real(real64), intent(in) :: x(:, :)
    real(real64) :: a(2 * reach + 1, size(x))
    integer :: i

    do i = -reach, reach
      a(1 + reach + i, :) = reshape(cshift(x, i, dim=1), [size(x)])
    end do
  end function

end module
