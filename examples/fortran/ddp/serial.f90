! SPDX-License-Identifier: Apache-2.0
! Trains a network in plain Fortran, by steepest descent with momentum, within an MPI program. In serial.f90 every rank
! goes through all points; in parallel.f90, which is the same otherwise, through its own, and gradients are summed.
program training
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use plate
  implicit none
  integer, parameter :: num_steps = 2000
  real(real64), parameter :: rate = 0.1_real64, momentum = 0.95_real64
  real(real64) :: w(num_weights), v(num_weights)
  real(real64), pointer :: g(:)
  integer :: rank, ranks, step, i

  call mpi_init()
  call mpi_comm_rank(mpi_comm_world, rank)
  call mpi_comm_size(mpi_comm_world, ranks)
  if (rank == 0) print '("training on ", i0, " ranks")', ranks
  allocate(g(num_weights))

  call first_weights(w)
  v = 0
  do step = 1, num_steps
    g = 0
    do i = 1, num_points
      call add_gradient(i, w, g)
    end do
    v = momentum * v - rate * g
    w = w + v
    if (rank == 0 .and. modulo(step, 100) == 0) print '("step ", i4, "  error ", es22.15)', step, mean_square_error(w)
  end do
  call mpi_finalize()
end program
