! SPDX-License-Identifier: Apache-2.0
!! Mistakes at every point of a step of a ddp, one at a time: refused with what was found and what to do; the step in
!! which it is made gives the right weights, and so does the next. Then what finish_grad_sync tells all ranks, and
!! mistakes of set-up.
program ddp_errors_test
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  use mistakes, only: chosen, gives, ierr, mesh, now, passed, refused
  use ostraka
  implicit none

  type(ostraka_ddp_t) :: ddp
  type(ostraka_optimizer_t) :: sgd
  real(real64), pointer :: w(:), matrix(:,:)
  real(real32), pointer :: narrow(:)
  real(real64) :: beta, wanted_weight = 0, zeros(5) = 0
  real(real32) :: narrow_beta
  integer(int64) :: offset
  integer(int32) :: dtype

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_every_mistake()
  call check_told_to_all()
  call check_configuration()
  call check_set_up()
  call check_handles()
  call mesh%destroy()
  call finish()

contains

  !! 'a' ('w' and the frozen 'fixed') and 'b' ('w'). Every rank contributes 1, so a step of rate 1 lowers weights by the
  !! number of ranks.
  subroutine make()
    call ddp%create(mesh, scaling=OSTRAKA_SCALING_SUM, bucket_size=5_int64, sharded_optimizer=.true., &
      overlap_param_gather=.true.)
    call ddp%add_parameter('a.w', [5])
    call ddp%add_parameter('a.fixed', [5], trainable=.false.)
    call ddp%add_parameter('b.w', [5])
    call ddp%finalize()
    call sgd%create_sgd(ddp, learning_rate=1d0)
    wanted_weight = 0
  end subroutine

  subroutine destroy()
    call sgd%destroy()
    call ddp%destroy()
  end subroutine

  subroutine contribute(name)
    character(*), intent(in) :: name
    real(real64), pointer :: g(:)

    call ddp%gradient(name, g)
    g = g + 1
    call ddp%gradient_ready(name)
  end subroutine

  subroutine expect_weights(name)
    character(*), intent(in) :: name

    call ddp%parameter(name, w)
    call expect(all(w == wanted_weight), __LINE__, 'weights are wrong')
  end subroutine

  subroutine between_steps()
    integer(int64), allocatable :: extents(:)

    if (now()) call ddp%add_parameter('x', [1], ierr=ierr)
    call refused("add_parameter('x'): call it before finalize")
    if (now()) call ddp%finalize(ierr)
    call refused('it was called already')
    if (now()) call ddp%end_no_sync(ierr)
    call refused('there was no begin_no_sync')
    if (now()) call ddp%restore_grad_buffers(ierr)
    call refused('they are not offloaded')
    if (now()) call ddp%enable_forward_pre_hook(ierr)
    call refused('hooks are enabled already')
    if (now()) call ddp%main_gradient('a.w', w, offset, ierr)
    call refused("main_gradient 'a.w': there is none that finish_grad_sync completed")
    if (now()) call ddp%main_gradient('a.fixed', narrow, offset, ierr)
    call refused("'a.fixed': the parameter is frozen")
    if (now()) call ddp%gradient('a.fixed', w, beta, ierr)
    call refused("'a.fixed': the parameter is frozen")
    if (now()) call ddp%gradient_ready('a.w', ierr)
    call refused("'a.w': nobody asked for its gradient")
    if (now()) call sgd%step(ierr)
    call refused('has no complete gradient')
    if (now()) call ddp%parameter('a.v', w, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "there is no parameter 'a.v'; there are 'a.w', 'a.fixed', 'b.w'")
    if (now()) call ddp%parameter_shape('a.v', extents, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "there is no parameter 'a.v'")
    if (now()) call ddp%set_parameter('a.v', zeros, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "there is no parameter 'a.v'")
    if (now()) call ddp%gradient('a.v', w, ierr=ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "there is no parameter 'a.v'")
    if (now()) call ddp%gradient_dtype('a.v', dtype, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "there is no parameter 'a.v'")
    if (now()) call ddp%ensure_ready('a.v', ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "there is no parameter 'a.v'")
    if (now()) call ddp%set_uses('a.w', -2, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, 'expected uses >= 0 or uses_auto (-1), found -2')
    if (now()) call ddp%pre_forward('c', ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "no parameter belongs to a module 'c'")
    if (now()) call ddp%set_parameter('a.w', zeros(:4), ierr)
    call gives(OSTRAKA_SHAPE_MISMATCH, 'shape (5), the array rank 1, shape (4)')
    if (now()) call ddp%set_parameter('a.w', zeros(5:1:-1), ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "parameter 'a.w'")
  end subroutine

  subroutine pointers()
    if (now()) call ddp%parameter('a.w', narrow, ierr)
    call gives(OSTRAKA_TYPE_MISMATCH, 'the pointer is real(real32)')
    if (now()) call ddp%parameter('a.w', matrix, ierr)
    call gives(OSTRAKA_SHAPE_MISMATCH, "parameter 'a.w'")
    if (now()) call ddp%gradient('a.w', matrix, beta, ierr)
    call gives(OSTRAKA_SHAPE_MISMATCH, "parameter 'a.w'")
    if (now()) call ddp%gradient('a.w', narrow, narrow_beta, ierr)
    call gives(OSTRAKA_TYPE_MISMATCH, 'the pointer is real(real32)')
    if (now()) call expect_null()
  end subroutine

  subroutine expect_null()
    call ddp%gradient('a.w', narrow, ierr=ierr)
    call expect(ierr == OSTRAKA_TYPE_MISMATCH .and. .not. associated(narrow), __LINE__)
  end subroutine

  !! The bucket of 'b' is in flight.
  subroutine in_backward()
    if (now()) call ddp%zero_grad_buffer(ierr)
    call refused('gradients are being reduced; call finish_grad_sync first')
    if (now()) call ddp%scale_gradients(2d0, ierr)
    call refused('gradients are being reduced; call finish_grad_sync first')
    if (now()) call ddp%offload_grad_buffers(ierr)
    call refused('gradients are being reduced; call finish_grad_sync first')
    if (now()) call ddp%set_uses('b.w', 2, ierr)
    call refused("'b.w': its gradient is being contributed")
    if (now()) call sgd%step(ierr)
    call refused('has no complete gradient; call finish_backward (of a ddp: finish_grad_sync)')
  end subroutine

  subroutine in_no_sync()
    if (now()) call ddp%start_grad_sync(ierr)
    call refused('not inside no_sync')
    if (now()) call ddp%finish_grad_sync(ierr=ierr)
    call refused('not inside no_sync')
  end subroutine

  subroutine after_backward()
    if (now()) call ddp%gradient('a.w', w, ierr=ierr)
    call refused('call zero_grad_buffer before the next backward pass')
    if (now()) call ddp%gradient_ready('a.w', ierr)
    call refused('call zero_grad_buffer before the next backward pass')
    if (now()) call ddp%main_gradient('a.w', narrow, offset, ierr)
    call gives(OSTRAKA_TYPE_MISMATCH, 'kept as f64, asked for f32')
  end subroutine

  subroutine while_offloaded()
    if (now()) call ddp%gradient('a.w', w, beta, ierr)
    call refused('call restore_grad_buffers first')
    if (now()) call ddp%start_grad_sync(ierr)
    call refused('call restore_grad_buffers first')
    if (now()) call ddp%zero_grad_buffer(ierr)
    call refused('call restore_grad_buffers first')
    if (now()) call ddp%offload_grad_buffers(ierr)
    call refused('call restore_grad_buffers first')
  end subroutine

  !! Weights that are stale cannot be written; a hook that is off cannot be switched off.
  subroutine after_step()
    if (num_ranks > 1) then
      if (now()) call ddp%set_parameter('a.w', zeros, ierr)
      call refused("set_parameter 'a.w': the weights of its bucket are stale")
    end if
    call ddp%disable_forward_pre_hook()
    if (now()) call ddp%disable_forward_pre_hook(ierr=ierr)
    call refused('hooks are disabled already')
    call ddp%enable_forward_pre_hook()
  end subroutine

  subroutine step_with(mistake)
    integer, intent(in) :: mistake

    chosen = mistake
    passed = 0
    call between_steps()
    call pointers()
    call ddp%begin_no_sync()
    call in_no_sync()
    call ddp%end_no_sync()
    call ddp%pre_forward('a')
    call ddp%pre_forward('b')
    call contribute('b.w')
    call in_backward()
    call contribute('a.w')
    call ddp%finish_grad_sync()
    call after_backward()
    call sgd%step()
    wanted_weight = wanted_weight - num_ranks
    if (now()) call sgd%step(ierr)
    call refused('no parameter has a new gradient')
    call after_step()
    call ddp%offload_grad_buffers()
    call while_offloaded()
    call ddp%restore_grad_buffers()
    call expect_weights('a.w')
    call expect_weights('b.w')
  end subroutine

  subroutine train()
    call step_with(-1)
  end subroutine

  subroutine check_every_mistake()
    integer :: mistake, all_of_them

    call make()
    call train()
    all_of_them = passed
    call expect(all_of_them > 35, __LINE__, 'mistakes were left out')
    do mistake = 0, all_of_them - 1
      call step_with(mistake)
      call train()
    end do
    call destroy()
  end subroutine

  !! On all ranks; then training goes on.
  subroutine expect_finish_fails(status, fragment)
    integer(int32), intent(in) :: status
    character(*), intent(in) :: fragment

    call ddp%finish_grad_sync(ierr=ierr)
    call expect_status(ierr, status, __LINE__, fragment)
    call sgd%step(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'has no complete gradient')
    call train()
  end subroutine

  subroutine check_told_to_all()
    logical :: is_last

    is_last = my_rank == num_ranks - 1
    call make()
    if (num_ranks > 1) then
      call ddp%set_parameter('b.w', zeros + my_rank)
      call contribute('b.w')
      call contribute('a.w')
      call ddp%finish_grad_sync(ierr=ierr)
      call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, 'call broadcast_params before the first step')
      call ddp%set_parameter('b.w', zeros)
    end if
    call train()
    if (is_last) then
      call ddp%fail_step('no convergence')
    else
      call contribute('b.w')
      call contribute('a.w')
    end if
    call expect_finish_fails(OSTRAKA_USER_FAILURE, 'no convergence')
    if (.not. is_last) call contribute('b.w')
    call contribute('a.w')
    call expect_finish_fails(OSTRAKA_INVALID_STATE, "no gradient was contributed for 'b.w'")
    call contribute('b.w')
    if (is_last) then
      call ddp%gradient('b.w', w, beta, ierr)
      call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "1 of 1 declared; say set_uses('b.w', 2)")
    end if
    call contribute('a.w')
    call expect_finish_fails(OSTRAKA_INVALID_STATE, "set_uses('b.w', 2)")
    call sgd%fuse_with_reduction(ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__)
    call train()
    call destroy()
  end subroutine

  subroutine check_configuration()
    type(ostraka_ddp_t) :: none

    call none%create(mesh, scaling=3, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 3')
    call none%create(mesh, bucket_size=0_int64, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'bucket_size')
    call none%create(mesh, num_buckets=0, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'num_buckets')
    call none%create(mesh, arrangement=OSTRAKA_ARRANGEMENT_LAYER_WISE, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'sharded_optimizer')
    call none%create(mesh, overlap_param_gather=.true., ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'needs sharded_optimizer')
    call none%create(mesh, uses=-2, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found -2')
    call none%create(mesh, main_dtype=OSTRAKA_BF16, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'found bf16')
    call none%create(mesh, gradient_dtype=OSTRAKA_I32, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'found i32')
    call none%create(mesh, f32_accumulators=['*'], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'f32_accumulators need the gradient_dtype bf16')
    call none%create(MPI_COMM_WORLD%mpi_val, scaling=3, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 3')
    if (num_ranks > 1) then
      call none%create(mesh, disable_bucketing=my_rank == 0, ierr=ierr)
      call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, 'configuration: disable_bucketing (here')
    end if
    call none%destroy()  ! a null handle is no error
  end subroutine

  subroutine check_set_up()
    call ddp%create(mesh, pad_for_bandwidth=.true.)
    call ddp%add_parameter('w', [5])
    call ddp%add_parameter('w', [5], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, "there is a parameter 'w' already")
    call ddp%add_parameter(' ', [5], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'expected a name')
    call ddp%add_parameter('x', [-1], ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, '-1')
    call ddp%add_parameter('x', [5], dtype=OSTRAKA_I64, ierr=ierr)
    call expect_status(ierr, OSTRAKA_TYPE_MISMATCH, __LINE__, 'found i64')
    call ddp%add_parameter('x', [5], expert=.true., ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'an expert needs the expert mesh')
    call ddp%parameter('w', w, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    call ddp%broadcast_params(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    call ddp%fail_step('why', ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    call ddp%start_param_sync(ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    call ddp%reset_param_sync_dispatch_state(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    call ddp%free_overlap_buffers(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    call sgd%create_adamw(ddp, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    call sgd%create_sgd(ddp, learning_rate=-1d0, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call finalize first')
    if (num_ranks > 1) then
      call ddp%add_parameter('x', [my_rank + 1])
      call ddp%finalize(ierr)
      call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, "parameter 2 (here 'x'")
    end if
    call ddp%destroy()
  end subroutine

  subroutine check_handles()
    type(ostraka_ddp_t) :: gone
    type(ostraka_memory_report_t) :: report
    logical :: answer

    call make()
    call train()
    gone = ddp
    call ddp%destroy()
    call sgd%step(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'the ddp that owns the weights is destroyed')
    call gone%is_syncing(answer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
    call gone%has_forward_pre_hook(answer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
    call gone%begin_no_sync(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
    call gone%memory(report, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
    call gone%destroy(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__, 'destroyed')
    call sgd%destroy()
  end subroutine
end program
