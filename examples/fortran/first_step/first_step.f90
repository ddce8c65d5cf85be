! SPDX-License-Identifier: Apache-2.0
! One weight, sharded over all ranks, and one step of gradient descent: fits the line y = w(1) + w(2) x.
program first_step
  use, intrinsic :: iso_fortran_env, only: real64
  use mpi_f08
  use ostraka
  implicit none
  integer, parameter :: rows = 4                  ! points on each rank
  type(ostraka_mesh_t) :: mesh
  type(ostraka_fsdp_context_t) :: context
  type(ostraka_fsdp_module_t) :: line
  type(ostraka_optimizer_t) :: sgd
  real(real64), pointer, contiguous :: w(:), g(:)
  real(real64) :: x(rows), residual(rows), loss, beta
  integer :: rank, ranks, i

  call mpi_init()
  call ostraka_initialize()
  call mesh%create(mpi_comm_world%mpi_val)        ! one axis with all ranks
  call mesh%rank(rank)
  call mesh%size(ranks)
  call context%create(mesh)                       ! ZeRO-3, gradients are the mean over ranks
  call context%add_module('line', line)
  call line%add_parameter('w', [2], dtype=ostraka_f64)
  call line%build()
  call line%set_parameter('w', [0.5_real64, 0.5_real64])
  call context%finalize()
  call sgd%create_sgd(context, learning_rate=0.1_real64)

  x = [(real(rank * rows + i, real64) / (ranks * rows), i = 1, rows)]
  call evaluate('before')
  call line%pre_backward()                        ! the weight is whole again
  call line%gradient('w', g, beta)                ! beta is 0 at the first use: g is undefined, assign to it
  g = 2 * [sum(residual), sum(residual * x)] / rows
  call line%post_backward()                       ! the reduction over ranks starts
  call context%finish_backward()
  call sgd%step()                                 ! each rank updates its shard
  call context%zero_grad()                        ! the step does not do it: without it gradients add up
  call context%begin_inference()                  ! no backward pass follows
  call evaluate('after')
  call context%end_inference()

  call sgd%destroy()
  call context%destroy()
  call mesh%destroy()
  call ostraka_finalize()
  call mpi_finalize()
contains
  subroutine evaluate(moment)
    character(*), intent(in) :: moment
    call line%pre_forward()
    call line%parameter('w', w)                   ! the whole weight, read-only
    residual = w(1) + w(2) * x - (1 + 2 * x)
    call line%post_forward()                      ! w is dead
    loss = sum(residual**2) / (rows * ranks)
    call mpi_allreduce(mpi_in_place, loss, 1, mpi_double_precision, mpi_sum, mpi_comm_world)
    if (rank == 0) print '("loss ", a, ": ", f8.6)', moment, loss
  end subroutine
end program
