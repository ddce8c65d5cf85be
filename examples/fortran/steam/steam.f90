! SPDX-License-Identifier: Apache-2.0
! Trains a network for the properties of water and steam with weights, gradients and optimizer state sharded over all
! ranks, and compares the loss curve with one that PyTorch computed on a single process.
!
!   mpiexec -n 3 steam [DATA_DIR [EPOCHS]] [--every K] [--resume] [--file FILE]
!     DATA_DIR       else the environment's STEAM_DATA, else "data"
!     --every K      saves to FILE (steam.h5) behind every K-th epoch, and behind the last one
!     --resume       goes on behind the epoch that FILE was saved in, also on another number of ranks
program steam
  use, intrinsic :: iso_fortran_env, only: error_unit, int64, output_unit, real64
  use mpi_f08
  use ostraka
  use steam_arguments
  use steam_checkpoint
  use steam_data
  use steam_network
  use steam_random
  implicit none

  integer, parameter :: num_layers = 4, width(0:num_layers) = [num_inputs, 64, 64, 64, num_outputs]
  integer, parameter :: batch_size = 256, validation_batch = 128
  real(real64), parameter :: first_rate = 1e-2_real64, tolerance = 1e-10_real64

  type :: activation_t
    real(real64), allocatable :: a(:, :)
  end type

  type(ostraka_mesh_t) :: mesh
  type(ostraka_fsdp_context_t) :: context
  type(ostraka_fsdp_module_t) :: layer(num_layers)
  type(ostraka_optimizer_t) :: adamw
  type(ostraka_memory_report_t) :: memory
  type(activation_t) :: activation(0:num_layers)  ! of the rows that this rank works on
  type(steam_t), allocatable :: points
  type(random_t) :: random
  type(arguments_t) :: arguments
  character(:), allocatable :: message
  real(real64) :: squares(2), loss(2, num_epochs), density_error(num_validation), step_seconds, started
  integer :: order(num_training), rank, ranks, done, epoch, first, i

  call mpi_init()
  call mpi_comm_rank(mpi_comm_world, rank)
  call mpi_comm_size(mpi_comm_world, ranks)
  allocate(points)
  call read_arguments(arguments, message)
  if (len(message) == 0) call read_steam(arguments%folder, points, message)
  call stop_together(message)

  call ostraka_initialize()
  call build_network()
  order = [(i, i = 1, num_training)]
  step_seconds = 0
  done = 0
  if (arguments%resumes) call resume()
  do epoch = done + 1, arguments%epochs
    call random%shuffle(order)
    call adamw%set_learning_rate(first_rate * (1 - real(epoch - 1, real64) / num_epochs))
    squares = 0
    started = mpi_wtime()
    do first = 1, num_training, batch_size
      call train(order(first:first + batch_size - 1), squares(1))
    end do
    step_seconds = step_seconds + mpi_wtime() - started
    call validate(squares(2), density_error)
    call mpi_allreduce(mpi_in_place, squares, 2, mpi_double_precision, mpi_sum, mpi_comm_world)
    loss(:, epoch) = squares / (num_outputs * [num_training, num_validation])
    if (rank == 0 .and. (epoch == done + 1 .or. modulo(epoch, 10) == 0 .or. epoch == arguments%epochs)) then
      write(output_unit, '("epoch ", i3, "   train MSE ", f8.6, "   validation MSE ", f8.6)') epoch, loss(:, epoch)
      flush(output_unit)
    end if
    if (arguments%every > 0) then
      if (modulo(epoch, arguments%every) == 0 .or. epoch == arguments%epochs) &
        call save_run(arguments%checkpoint, context, adamw, random, order, loss(:, :epoch))
    end if
  end do
  call context%memory(memory)
  call report(loss(:, :arguments%epochs), message)

  call adamw%destroy()
  call context%destroy()
  call mesh%destroy()
  call ostraka_finalize()
  call stop_together(message)
  deallocate(points, message)                     ! a program's own variables outlive it otherwise
  call mpi_finalize()

contains

  subroutine build_network()
    real(real64), allocatable :: w(:, :), b(:)
    integer :: l

    call mesh%create(mpi_comm_world%mpi_val)
    ! A rank's share of a batch is 85 or 86 rows of 256 on three ranks: the ranks' gradients are not equally heavy. So
    ! they are summed, and train() divides by the rows of the whole batch.
    call context%create(mesh, recipe=ostraka_zero_3, reduction=ostraka_sum)
    do l = 1, num_layers
      call context%add_module('layer ' // achar(iachar('0') + l), layer(l))
      call layer(l)%add_parameter('weight', width(l - 1:l), dtype=ostraka_f64)
      call layer(l)%add_parameter('bias', [width(l)], dtype=ostraka_f64)
      call layer(l)%build()
      allocate(w(width(l - 1), width(l)), b(width(l)))
      call random%fill(sqrt(6 / real(sum(width(l - 1:l)), real64)), w)
      b = 0
      call layer(l)%set_parameter('weight', w)  ! every rank passes the whole array, its shard is kept
      call layer(l)%set_parameter('bias', b)
      deallocate(w, b)
    end do
    call context%finalize()
    call adamw%create_adamw(context, learning_rate=first_rate, beta1=0.9_real64, beta2=0.999_real64, &
                            epsilon=1e-8_real64, weight_decay=1e-4_real64)
  end subroutine

  ! The network as it was behind epoch `done`, and what is left to do.
  subroutine resume()
    call resume_run(arguments%checkpoint, context, adamw, random, order, loss, done)
    message = ''
    if (done >= arguments%epochs) message = arguments%checkpoint // ': nothing is left to train'
    call stop_together(message)
    if (rank == 0) write(output_unit, '("resumed behind epoch ", i0)') done
  end subroutine

  ! One step: forward, backward, update. Adds this rank's squared errors before the update to `squares`.
  subroutine train(batch, squares)
    integer, intent(in) :: batch(:)
    real(real64), intent(inout) :: squares
    real(real64), pointer, contiguous :: w(:, :), gw(:, :), gb(:)
    real(real64), allocatable :: delta(:, :)
    real(real64) :: beta
    integer :: l

    call context%zero_grad()
    associate (rows => batch(share_begin(rank):share_begin(rank + 1) - 1))
      call forward(rows)
      delta = activation(num_layers)%a - points%outputs(:, rows)
    end associate
    squares = squares + sum(delta**2)
    delta = delta * (2 / real(num_outputs * batch_size, real64))
    do l = num_layers, 1, -1
      call layer(l)%pre_backward()                  ! weights whole again, the layer below is on its way
      call layer(l)%gradient('weight', gw, beta)
      call add_weight_gradient(activation(l - 1)%a, delta, beta, gw)
      call layer(l)%gradient('bias', gb, beta)
      call add_bias_gradient(delta, beta, gb)
      if (l > 1) then
        call layer(l)%parameter('weight', w)
        delta = input_gradient(w, delta) * (1 - activation(l - 1)%a**2)
      end if
      call layer(l)%post_backward()                 ! the reduction over ranks starts, weights are released
    end do
    call context%finish_backward()
    call adamw%step()                               ! each rank updates its shard
  end subroutine

  subroutine forward(rows)
    integer, intent(in) :: rows(:)
    real(real64), pointer, contiguous :: w(:, :), b(:)
    integer :: l

    activation(0)%a = points%inputs(:, rows)
    do l = 1, num_layers
      call layer(l)%pre_forward()                   ! weights whole here, the next layer's are on their way
      call layer(l)%parameter('weight', w)
      call layer(l)%parameter('bias', b)
      activation(l)%a = dense(w, b, activation(l - 1)%a)
      if (l < num_layers) activation(l)%a = tanh(activation(l)%a)
      call layer(l)%post_forward()                  ! back to shards: w and b are dead
    end do
  end subroutine

  ! The ranks take turns with blocks of validation rows: eight on three ranks are 3 + 3 + 2 forward passes, which is
  ! legal here because hooks are local between begin_inference and end_inference.
  subroutine validate(squares, density_error)
    real(real64), intent(inout) :: squares
    real(real64), intent(out) :: density_error(:)  ! relative; zero for the rows of other ranks
    real(real64), allocatable :: difference(:, :)
    integer :: begin, i

    density_error = 0
    call context%begin_inference()
    do begin = 1 + rank * validation_batch, num_validation, ranks * validation_batch
      associate (rows => num_training + [(i, i = begin, begin + validation_batch - 1)])
        call forward(rows)
        difference = activation(num_layers)%a - points%outputs(:, rows)
      end associate
      squares = squares + sum(difference**2)
      density_error(begin:begin + validation_batch - 1) = abs(10**(difference(1, :) * points%density_deviation) - 1)
    end do
    call context%end_inference()
  end subroutine

  ! Where the share of rank r begins in a batch: as even as possible, the longer shares first.
  pure integer function share_begin(r)
    integer, intent(in) :: r

    share_begin = 1 + r * (batch_size / ranks) + min(r, modulo(batch_size, ranks))
  end function

  ! Prints the results; `message` is not empty when the curve leaves the reference. Collective.
  subroutine report(loss, message)
    real(real64), intent(in) :: loss(:, :)
    character(:), allocatable, intent(out) :: message
    real(real64) :: deviation(2, size(loss, 2)), worst
    integer(int64) :: held, unsharded
    integer :: position(2), last

    last = size(loss, 2)
    ! The weights, their gradients and AdamW's two moments, in 8 bytes each.
    unsharded = 4 * 8 * memory%num_elements
    held = memory%parameters + memory%gradients + memory%optimizer_state
    call mpi_allreduce(mpi_in_place, held, 1, mpi_integer8, mpi_max, mpi_comm_world)
    call mpi_allreduce(mpi_in_place, density_error, num_validation, mpi_double_precision, mpi_sum, mpi_comm_world)
    deviation = abs(loss - points%reference(:, :last)) / points%reference(:, :last)
    where (.not. deviation < huge(deviation)) deviation = huge(deviation)  ! NaN must not pass
    position = maxloc(deviation)
    worst = deviation(position(1), position(2))
    message = ''
    if (worst >= tolerance) message = 'the loss curve leaves steam_reference.csv'
    if (rank /= 0) return

    write(output_unit, '(a, f8.6, a, f8.6)') 'validation MSE: ', loss(2, last), &
      ', reference: ', points%reference(2, last)
    write(output_unit, '("median relative density error: ", f5.2, " %")') 100 * median(density_error)
    write(output_unit, '(a, i0, a, i0, a, i0)') 'parameters + gradients + optimizer state: ', held, &
      ' bytes per rank on ', ranks, ' ranks, unsharded ', unsharded
    write(output_unit, '("time per step: ", f7.3, " ms")') &
      1000 * step_seconds / ((last - done) * (num_training / batch_size))
    write(output_unit, '(a, es9.2e3, a, i0, a, es7.1)') 'largest relative deviation from the reference: ', worst, &
      ' in epoch ', position(2), ', allowed below ', tolerance
    flush(output_unit)
  end subroutine

  ! All ranks stop when one has a message, so none waits for another forever. The first of them prints it.
  subroutine stop_together(message)
    character(*), intent(in) :: message
    integer :: speaker

    speaker = merge(rank, ranks, len(message) > 0)
    call mpi_allreduce(mpi_in_place, speaker, 1, mpi_integer, mpi_min, mpi_comm_world)
    if (speaker == ranks) return
    if (speaker == rank) write(error_unit, '("steam: ", a)') message
    flush(error_unit)
    call mpi_finalize()
    error stop 1, quiet=.true.
  end subroutine

end program
