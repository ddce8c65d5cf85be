! SPDX-License-Identifier: Apache-2.0
! Trains a network in plain Fortran, by steepest descent with momentum, within an MPI program. In serial.f90 every rank
! goes through all points; in parallel.f90, which is the same otherwise, through its own, and gradients are summed.
program training
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use ostraka
  use plate
  implicit none
  integer, parameter :: num_steps = 2000
  real(real64), parameter :: rate = 0.1_real64, momentum = 0.95_real64
  real(real64) :: w(num_weights), v(num_weights)
  real(real64), pointer :: g(:)
  type(ostraka_ddp_t) :: ddp
  integer :: rank, ranks, step, i

  call mpi_init()
  call mpi_comm_rank(mpi_comm_world, rank)
  call mpi_comm_size(mpi_comm_world, ranks)
  if (rank == 0) print '("training on ", i0, " ranks")', ranks
  call ostraka_initialize()
  call ddp%create(mpi_comm_world%mpi_val, scaling=OSTRAKA_SCALING_SUM, overlap_grad_reduce=.false.)
  call ddp%add_parameter('w', [num_weights])
  call ddp%finalize()

  call first_weights(w)
  v = 0
  do step = 1, num_steps
    call ddp%zero_grad_buffer()
    call ddp%gradient('w', g)  ! zero
    do i = 1 + rank, num_points, ranks
      call add_gradient(i, w, g)
    end do
    call ddp%finish_grad_sync()
    v = momentum * v - rate * g
    w = w + v
    if (rank == 0 .and. modulo(step, 100) == 0) print '("step ", i4, "  error ", es22.15)', step, mean_square_error(w)
  end do
  call ddp%destroy()
  call ostraka_finalize()
  call mpi_finalize()
end program
