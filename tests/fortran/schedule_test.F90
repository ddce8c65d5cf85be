! SPDX-License-Identifier: Apache-2.0
!! Modules inside modules, tied parameters, what ranks leave out, recomputation, schedules without hooks, and initial
!! weights from a procedure or from one rank.
program schedule_test
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  use ostraka
  implicit none

  type(ostraka_mesh_t) :: mesh
  type(ostraka_fsdp_context_t) :: context
  type(ostraka_fsdp_module_t) :: root, inner, spare
  integer :: step
  real(real64) :: base

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call context%create(mesh, reduction=OSTRAKA_SUM, prefetch=100_int64, unified_stream=.true.)
  call set_up()
  do step = 1, 2
    call check_skipped_unused_recomputed()
  end do
  call check_skipped_microbatch()
  call check_without_hooks()
  call context%destroy()
  call mesh%destroy()
  call finish()

contains

  subroutine set_up()
    integer(int32) :: ierr
    real(real32) :: values(3)

    call context%add_module('root', root)
    call root%add_module('inner', inner)
    call root%add_module('inner', spare, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, "'root.inner' exists")
    call root%add_module('spare', spare)
    call inner%add_parameter('w', [2, 3])
    call inner%tie_parameter('v', 'w')
    call spare%tie_parameter('v', 'root.inner.w', ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, "owned by module 'root.inner'")
    call inner%set_gradient_divisor(-1d0, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '> 0')
    call inner%set_gradient_divisor(2d0)
    call inner%set_prefetch(-2, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '-2')
    call inner%set_prefetch(-1)
    call inner%build()
    call spare%add_parameter('w', [3], dtype=OSTRAKA_F32)
    call spare%set_allow_unused(.true.)
    call spare%build()

    base = 10
    call inner%initialise('v', numbers)  ! of real64
    call spare%initialise('w', numbers)  ! converted
    call context%finalize()
    call expect_whole(inner, 10d0)
    call expect_whole32(10.0)
    values = 0
    if (my_rank == num_ranks - 1) values = [4.0, 5.0, 6.0]
    call spare%set_from_root('w', values, num_ranks - 1)
    call expect_whole32(3.0)
    call spare%set_from_root('w', [1d0, 2d0], 0, ierr)
    call expect_status(ierr, OSTRAKA_SHAPE_MISMATCH, __LINE__)
    call spare%set_from_root('w', values, num_ranks, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'root')
    base = -4
    call inner%initialise('w', numbers)
    call expect_whole(inner, -4d0)
  end subroutine

  subroutine numbers(first, values)
    integer(int64), intent(in) :: first
    real(real64), intent(out) :: values(:)
    integer :: i

    values = [(base + real(first + i, real64), i = 0, size(values) - 1)]
  end subroutine

  !! Elements before + 1, before + 2, ...
  subroutine expect_whole(layer, before)
    type(ostraka_fsdp_module_t), intent(in) :: layer
    real(real64), intent(in) :: before
    real(real64), pointer :: w(:,:)
    integer :: i

    call layer%unshard()
    call layer%parameter('v', w)
    call expect(all(reshape(w, [6]) == [(before + i, i = 1, 6)]), __LINE__, 'weights are wrong')
    call layer%reshard()
  end subroutine

  subroutine expect_whole32(before)
    real(real32), intent(in) :: before
    real(real32), pointer :: w(:)
    integer :: i

    call spare%unshard(OSTRAKA_AHEAD_BACKWARD)
    call spare%parameter('w', w)
    call expect(all(w == [(before + real(i, real32), i = 1, 3)]), __LINE__, 'weights are wrong')
    call spare%reshard()
  end subroutine

  subroutine contribute(name, value)
    character(*), intent(in) :: name
    real(real64), intent(in) :: value
    real(real64), pointer :: g(:,:)
    real(real64) :: beta

    call inner%gradient(name, g, beta)
    if (beta == 0) g = 0
    g = g + value
  end subroutine

  subroutine expect_gradient(wanted, line)
    real(real64), intent(in) :: wanted
    integer, intent(in) :: line
    real(real64), pointer :: g(:)
    integer(int64) :: offset

    call inner%main_gradient('w', g, offset)
    call expect(all(g == wanted), line, 'a gradient is wrong')
  end subroutine

  !! Rank 0 does not compute `inner`, nobody runs `spare`, the others recompute and write under both names.
  subroutine check_skipped_unused_recomputed()
    real(real32), pointer :: g(:)
    integer(int64) :: offset

    call context%zero_grad()
    call root%pre_forward()
    if (my_rank == 0) then
      call inner%skip_forward()
    else
      call inner%pre_forward()
      call inner%post_forward()
    end if
    call root%post_forward()
    call context%begin_backward()
    call inner%pre_forward()
    call inner%post_forward()
    call root%pre_backward()
    if (my_rank == 0) then
      call inner%skip_backward()
    else
      call inner%pre_backward()
      call contribute('w', 1d0)
      call contribute('v', 3d0)
      call inner%post_backward()
    end if
    call root%post_backward()
    call context%finish_backward()
    call expect_gradient(2d0 * (num_ranks - 1), __LINE__)
    call spare%main_gradient('w', g, offset)
    call expect(all(g == 0), __LINE__)
  end subroutine

  !! Rank 0 has one micro-batch less.
  subroutine check_skipped_microbatch()
    integer :: k
    integer(int32) :: ierr

    call context%zero_grad()
    do k = 1, 2
      call context%set_last_microbatch(k == 2)
      if (my_rank == 0 .and. k == 2) then
        call context%skip_microbatch()
        cycle
      end if
      call inner%pre_forward()
      call inner%post_forward()
      call inner%pre_backward()
      call contribute('w', 2d0)
      call inner%post_backward()
      call context%finish_backward()
    end do
    call expect_gradient(2d0 * num_ranks - 1, __LINE__)
    call inner%pre_forward()
    call context%skip_microbatch(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'hooks')
    call context%begin_backward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'post_forward')
    call inner%post_forward()
    call context%finish_backward()
  end subroutine

  subroutine check_without_hooks()
    integer(int32) :: ierr, ahead

    call context%zero_grad()
    do ahead = OSTRAKA_AHEAD_NONE, OSTRAKA_AHEAD_BACKWARD
      call inner%unshard(ahead)
      call contribute('v', 4d0)
      call inner%reshard(ierr)
      call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'reduce_gradients')
      call inner%reduce_gradients()
      call inner%reshard()
    end do
    call inner%unshard(3, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '3')
    call context%finish_backward()
    call expect_gradient(6d0 * num_ranks, __LINE__)
  end subroutine
end program
