! SPDX-License-Identifier: Apache-2.0
! Trains a network inside a running simulation, and then uses it there. Every rank runs members of an ensemble of the
! two-scale Lorenz 96 model; while they run, all ranks together train one network, sharded over them, to give what the
! fast variables do to the slow ones. Then a coarse model without fast variables forecasts with and without the network.
!
!   mpiexec -n 4 lorenz96 [TRAINING_STEPS]
program lorenz96
  use, intrinsic :: iso_fortran_env, only: error_unit, output_unit, real64
  use mpi_f08
  use ostraka, only: ostraka_finalize, ostraka_initialize
  use lorenz96_model
  use lorenz96_network
  implicit none

  integer, parameter :: num_members = 10, most_steps = 2500
  integer, parameter :: spin_up = 500                   ! pieces of the simulation before the training
  integer, parameter :: fine_per_piece = nint(0.02_real64 / fine_step)
  integer, parameter :: num_starts = 12, num_leads = 30  ! forecasts of each member, verified every 0.1 time units
  integer, parameter :: fine_per_lead = nint(0.1_real64 / fine_step), coarse_per_lead = nint(0.1_real64 / coarse_step)
  integer, parameter :: climate_leads = 600, forgotten_leads = 100

  ! Sums of X, X**2, U, U**2 at `count` times, for each member: zero for those of other ranks. Adding up members, not
  ! ranks, gives the same to the last bit on any number of ranks.
  type :: moments_t
    integer :: count = 0
    real(real64) :: sums(4, num_members) = 0
  end type

  ! Of one coarse model. Forecasts f and truth t, by lead: sums over members, starts and slow variables.
  type :: score_t
    real(real64), dimension(num_leads) :: error = 0, ff = 0, ft = 0, tt = 0  ! (f - t)**2; products of anomalies
    type(moments_t) :: climate
  end type

  type(network_t) :: network
  type(constant_t) :: nothing, mean
  type(score_t) :: score(3)
  type(moments_t) :: scales, truth
  real(real64), allocatable :: s(:, :), x(:, :), u(:, :)  ! of this rank's members
  character(:), allocatable :: message
  real(real64) :: climatology(4), started
  integer :: rank, ranks, first, last, num_steps, i

  call mpi_init()
  call mpi_comm_rank(mpi_comm_world, rank)
  call mpi_comm_size(mpi_comm_world, ranks)
  call read_arguments(num_steps, message)
  call stop_together(message)
  call ostraka_initialize()
  started = mpi_wtime()

  first = 1 + rank * num_members / ranks                ! this rank's members are first ... last
  last = (rank + 1) * num_members / ranks
  allocate(s(num_variables, first:last), x(num_slow, first:last), u(num_slow, first:last))
  do i = first, last
    s(:, i) = random_state(seed=i)
  end do
  call network%create(mpi_comm_world)
  call run_and_train()
  call forecast_and_verify()
  call report()

  call network%destroy()
  call ostraka_finalize()
  call mpi_finalize()

contains

  ! The two-scale simulation; the network learns from it after each piece.
  subroutine run_and_train()
    real(real64) :: squares
    integer :: step, printed

    do step = 1, spin_up
      call run(fine_per_piece)
      if (step > spin_up / 2) call add(scales, x, u)
    end do
    climatology = means(scales)
    call network%set_scales(climatology(1), climatology(2), climatology(3), climatology(4))

    squares = 0
    printed = 0
    do step = 1, num_steps
      call run(fine_per_piece)
      call network%set_learning_rate(real(num_steps - step + 1, real64) / num_steps)
      call network%train(x, u, num_members, squares)
      call add(truth, x, u)
      if (modulo(10 * step, num_steps) < 10) then
        call print_loss(step, squares / (num_slow * num_members * (step - printed)))
        squares = 0
        printed = step
      end if
    end do
    climatology = means(truth)
  end subroutine

  ! Runs this rank's members for some fine steps.
  subroutine run(fine_steps)
    integer, intent(in) :: fine_steps
    integer :: member, i

    do member = first, last
      do i = 1, fine_steps
        call advance(s(:, member))
      end do
      x(:, member) = s(:num_slow, member)
      u(:, member) = coupling(s(:, member))
    end do
  end subroutine

  ! From states that the network has not seen: the simulation goes on, and the coarse models follow it.
  subroutine forecast_and_verify()
    real(real64) :: truth_x(num_slow, first:last, 0:num_leads)
    integer :: start, lead

    mean%value = climatology(3)
    call network%begin_use()
    do start = 1, num_starts
      truth_x(:, :, 0) = x
      do lead = 1, num_leads
        call run(fine_per_lead)
        truth_x(:, :, lead) = x
      end do
      call forecast(nothing, truth_x, score(1))
      call forecast(mean, truth_x, score(2))
      call forecast(network, truth_x, score(3))
    end do
    call simulate(nothing, x, score(1)%climate)
    call simulate(mean, x, score(2)%climate)
    call simulate(network, x, score(3)%climate)
    call network%end_use()
  end subroutine

  subroutine forecast(closure, truth_x, score)
    class(closure_t), intent(inout) :: closure
    real(real64), intent(in) :: truth_x(:, :, 0:)
    type(score_t), intent(inout) :: score
    real(real64) :: f(num_slow, size(truth_x, 2))
    integer :: lead, i

    f = truth_x(:, :, 0)
    do lead = 1, num_leads
      do i = 1, coarse_per_lead
        call advance_coarse(f, closure)
      end do
      associate (t => truth_x(:, :, lead), normal => climatology(1))
        score%error(lead) = score%error(lead) + sum((f - t)**2)
        score%ff(lead) = score%ff(lead) + sum((f - normal)**2)
        score%ft(lead) = score%ft(lead) + sum((f - normal) * (t - normal))
        score%tt(lead) = score%tt(lead) + sum((t - normal)**2)
      end associate
    end do
  end subroutine

  ! A long run, whose beginning is forgotten. On other numbers of ranks the network's gradients are rounded differently;
  ! chaos makes that another sample of the same climate, whose mean differs by some hundredths.
  subroutine simulate(closure, start, climate)
    class(closure_t), intent(inout) :: closure
    real(real64), intent(in) :: start(:, first:)
    type(moments_t), intent(inout) :: climate
    real(real64), dimension(num_slow, first:last) :: f, estimated
    integer :: lead, i

    f = start
    do lead = 1, climate_leads
      do i = 1, coarse_per_lead
        call advance_coarse(f, closure)
      end do
      if (lead <= forgotten_leads) cycle
      call closure%estimate(f, estimated)
      call add(climate, f, estimated)
    end do
  end subroutine

  subroutine add(moments, x, u)
    type(moments_t), intent(inout) :: moments
    real(real64), intent(in) :: x(:, first:), u(:, first:)
    integer :: i

    moments%count = moments%count + 1
    do i = first, last
      moments%sums(:, i) = moments%sums(:, i) + [sum(x(:, i)), sum(x(:, i)**2), sum(u(:, i)), sum(u(:, i)**2)]
    end do
  end subroutine

  ! Mean and deviation of X, then of U, over all members. Collective.
  function means(moments)
    type(moments_t), intent(in) :: moments
    real(real64) :: means(4), all(4, num_members)

    all = moments%sums                                  ! those of other ranks' members are zero here
    call mpi_allreduce(mpi_in_place, all, size(all), mpi_double_precision, mpi_sum, mpi_comm_world)
    means = sum(all, dim=2) / (num_slow * num_members * moments%count)
    means([2, 4]) = sqrt(max(means([2, 4]) - means([1, 3])**2, 0.0_real64))  ! rounding: U may be constant
  end function

  ! Collective.
  subroutine print_loss(step, my_loss)
    integer, intent(in) :: step
    real(real64), intent(in) :: my_loss
    real(real64) :: loss

    call mpi_allreduce(my_loss, loss, 1, mpi_double_precision, mpi_sum, mpi_comm_world)
    if (rank == 0) write(output_unit, '("step ", i4, "   unexplained variance of U ", f12.10)') step, loss
    flush(output_unit)
  end subroutine

  ! Prints the skill of the three coarse models. Collective.
  subroutine report()
    integer, parameter :: shown(3) = [5, 10, 20]
    real(real64) :: rmse(num_leads, 3), correlation(num_leads, 3), climate(4, 3), useful(3)
    integer :: i

    do i = 1, 3
      associate (a => score(i))
        call sum_over_ranks(a%error)
        call sum_over_ranks(a%ff)
        call sum_over_ranks(a%ft)
        call sum_over_ranks(a%tt)
        rmse(:, i) = sqrt(a%error / (num_slow * num_members * num_starts))
        correlation(:, i) = a%ft / sqrt(a%ff * a%tt)
        climate(:, i) = means(a%climate)
      end associate
      useful(i) = 0.1_real64 * count_leading(rmse(:, i) < climatology(2) / 2)
    end do
    if (rank /= 0) return

    write(output_unit, '("truth: X ", f5.3, " +- ", f5.3, ", U ", f6.3, " +- ", f5.3)') climatology
    write(output_unit, '(a34, 3a11)') 'coarse model with', 'U = 0', 'mean U', 'network'
    do i = 1, size(shown)
      call print_row('RMSE of X after', shown(i), rmse(shown(i), :))
    end do
    do i = 1, size(shown)
      call print_row('anomaly correlation after', shown(i), correlation(shown(i), :))
    end do
    write(output_unit, '(a34, 3f11.3)') 'RMSE below half a deviation until', useful
    write(output_unit, '(a34, 3f11.3)') 'error of the mean of X', climate(1, :) - climatology(1)
    write(output_unit, '(a34, 3f11.3)') 'relative error of its variance', (climate(2, :) / climatology(2))**2 - 1
    write(output_unit, '("time: ", f5.1, " s on ", i0, " ranks")') mpi_wtime() - started, ranks
  end subroutine

  subroutine print_row(text, lead, values)
    character(*), intent(in) :: text
    integer, intent(in) :: lead
    real(real64), intent(in) :: values(:)

    write(output_unit, '(a30, f4.1, 3f11.3)') text, 0.1_real64 * lead, values
  end subroutine

  subroutine sum_over_ranks(values)
    real(real64), intent(inout) :: values(:)

    call mpi_allreduce(mpi_in_place, values, size(values), mpi_double_precision, mpi_sum, mpi_comm_world)
  end subroutine

  ! How many are true before the first that is not.
  pure integer function count_leading(is_true)
    logical, intent(in) :: is_true(:)

    count_leading = findloc([is_true, .false.], .false., dim=1) - 1
  end function

  subroutine read_arguments(num_steps, message)
    integer, intent(out) :: num_steps
    character(:), allocatable, intent(out) :: message
    character(32) :: argument, range
    integer :: status

    message = ''
    num_steps = most_steps
    if (command_argument_count() == 0) return
    call get_command_argument(1, argument)
    status = verify(trim(argument), '0123456789')
    if (status == 0) read(argument, *, iostat=status) num_steps
    if (status /= 0 .or. num_steps < 10 .or. num_steps > most_steps) then
      write(range, '("10 to ", i0)') most_steps
      message = 'argument 1: expected a number of training steps from ' // trim(range) // &
        ', found "' // trim(argument) // '"'
    end if
  end subroutine

  ! All ranks stop when they have a message; it is the same on all, so one prints it.
  subroutine stop_together(message)
    character(*), intent(in) :: message

    if (len(message) == 0) return
    if (rank == 0) write(error_unit, '("lorenz96: ", a)') message
    flush(error_unit)
    call mpi_finalize()
    error stop 1, quiet=.true.
  end subroutine

end program
