! SPDX-License-Identifier: Apache-2.0
!! Mistakes at every point of a step, one at a time: refused with what was found and what to do; the step in which it is
!! made gives the right weights, and so does the next. Then what finish_backward reports, mistakes of set-up, two fused
!! optimizers and a context that has lost its order.
program fsdp_errors_test
  use, intrinsic :: iso_fortran_env, only: int32, int64, real32, real64
  use checks
  use mistakes
  use ostraka
  implicit none

  real(real64) :: zeros(5) = 0

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_every_mistake(OSTRAKA_ZERO_3)
  call check_every_mistake(OSTRAKA_NO_SHARD)
  call check_reported_at_the_end()
  call check_set_up()
  call check_two_fused_optimizers()
  call check_reduced_once()
  call check_lost_order()
  call mesh%destroy()
  call finish()

contains

  subroutine numbers(first, values)
    integer(int64), intent(in) :: first
    real(real64), intent(out) :: values(:)

    values = real(first, real64)
  end subroutine

  subroutine in_use(how)
    character(*), intent(in) :: how

    if (now()) call a%set_parameter('w', zeros, ierr)
    call refused("'net.a' are in use (" // how)
    if (now()) call a%set_from_root('w', zeros, 0, ierr)
    call refused("'net.a' are in use (" // how)
    if (now()) call a%initialise('v', numbers, ierr)
    call refused("'net.a' are in use (" // how)
    if (now()) call sgd%step(ierr)
    call refused("'net.a' are in use (" // how)
  end subroutine

  subroutine set_up_too_late()
    type(ostraka_fsdp_module_t) :: late

    if (now()) call context%finalize(ierr)
    call refused('finalised already')
    if (now()) call context%add_module('x', late, ierr)
    call refused("add_module('x'): the context is finalised; add modules before")
    if (now()) call a%add_module('x', late, ierr)
    call refused('finalised; add modules before')
    if (now()) call a%build(ierr)
    call refused("'net.a': build was called twice")
    if (now()) call net%add_parameter('x', [1], ierr=ierr)
    call refused("'net': the context is finalised; call it before")
    if (now()) call a%tie_parameter('x', 'w', ierr)
    call refused("'net.a': tie_parameter('x') after build")
    if (now()) call a%set_precision(ierr=ierr)
    call refused("'net.a': set_precision after build")
    if (now()) call a%set_allow_unused(.true., ierr)
    call refused("set_allow_unused of module 'net.a': the context is finalised; call it before")
    if (now()) call a%set_prefetch(0, ierr)
    call refused("set_prefetch of module 'net.a': the context is finalised")
    if (now()) call a%set_gradient_divisor(2d0, ierr)
    call refused("set_gradient_divisor of module 'net.a': the context is finalised")
    if (now()) call a%set_from_root('w', zeros, num_ranks, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, 'a root from 0 to')
    if (now()) call a%set_from_root('w', zeros(:merge(4, 5, my_rank == num_ranks - 1)), 0, ierr)  ! one rank is wrong
    if (my_rank == num_ranks - 1) call gives(OSTRAKA_SHAPE_MISMATCH, 'shape (5), the array rank 1, shape (4)')
    call gives(OSTRAKA_SHAPE_MISMATCH, 'has 5 elements, found 4')
    if (now()) call a%initialise('x', numbers, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, "has no parameter 'x'; it has 'fixed', 'w'")
  end subroutine

  subroutine at_rest()
    real(real64), pointer :: g(:)
    integer(int64) :: offset

    if (now()) call a%post_forward(ierr)
    call refused("post_forward of module 'net.a': expected the forward phase, found resting; call pre_forward")
    if (now()) call a%pre_backward(ierr)
    call refused("'net.a': it has no forward pass to go back through (0 forward and 0 backward")
    if (now()) call a%post_backward(ierr)
    call refused("post_backward of module 'net.a': expected the backward phase, found resting; call pre_backward")
    if (now()) call a%skip_backward(ierr)
    call refused("'net.a': it has no forward pass")
    if (now()) call a%reshard(ierr)
    call refused("'net.a': it was not unsharded; call unshard first")
    if (now()) call a%unshard(7, ierr)
    call gives(OSTRAKA_INVALID_ARGUMENT, 'backward (2), found 7')
    if (now()) call a%main_gradient('w', g, offset, ierr)
    call refused("'net.a.w': there is none that finish_backward completed")
    if (now()) call a%main_gradient('fixed', g, offset, ierr)
    call refused("'net.a.fixed': the parameter is frozen")
    if (now()) call context%end_inference(ierr)
    call refused('begin_inference was not called')
    if (now()) call sgd%step(ierr)
    call refused("'net.a.w' has no complete gradient; call finish_backward")
  end subroutine

  subroutine in_forward()
    if (now()) call a%pre_forward(ierr)
    call refused('expected the resting phase, found forward; call post_forward first')
    if (now()) call a%skip_forward(ierr)
    call refused('expected the resting phase, found forward')
    if (now()) call a%skip_backward(ierr)
    call refused('expected the resting phase, found forward')
    if (now()) call a%reduce_gradients(ierr)
    call refused('expected the resting phase, found forward')
    if (now()) call context%begin_backward(ierr)
    call refused('call post_forward first')
    if (now()) call context%begin_inference(ierr)
    call refused("'net.a': expected the resting phase, found forward")
    if (now()) call context%skip_microbatch(ierr)
    call refused('hooks of this micro-batch have run')
    call in_use('forward)')
  end subroutine

  subroutine recomputed()
    if (now()) call a%pre_forward(ierr)
    call refused("'net.a': it is being recomputed; call post_forward first")
    if (now()) call b%pre_forward(ierr)
    call refused("'net.b': a backward pass has begun, and the module has no use to recompute; call finish_backward")
    if (now()) call context%zero_grad(ierr)
    call refused("'net.b' is in a backward pass; call finish_backward first")
  end subroutine

  subroutine in_backward()
    real(real64), pointer :: g(:)
    real(real32), pointer :: narrow(:)
    real(real64) :: beta
    real(real32) :: narrow_beta

    if (now()) call a%gradient('fixed', g, beta, ierr)
    call refused("'net.a.fixed': the parameter is frozen")
    if (now()) call a%gradient('w', narrow, narrow_beta, ierr)
    call gives(OSTRAKA_TYPE_MISMATCH, "the pointer is real(real32)")
    if (now()) call a%post_forward(ierr)
    call refused('expected the forward phase, found backward; call post_backward first')
    if (now()) call a%reduce_gradients(ierr)
    call refused('found backward; call post_backward first')
    if (now()) call context%skip_microbatch(ierr)
    call refused('hooks of this micro-batch have run')
    call in_use('backward)')
  end subroutine

  subroutine in_inference()
    if (now()) call context%begin_inference(ierr)
    call refused('it was called already')
    if (now()) call context%begin_backward(ierr)
    call refused('between begin_inference and end_inference')
    if (now()) call context%skip_microbatch(ierr)
    call refused('between begin_inference and end_inference')
    if (now()) call context%finish_backward(ierr)
    call refused('between begin_inference and end_inference')
    if (now()) call a%reduce_gradients(ierr)
    call refused('between begin_inference and end_inference')
    if (now()) call a%skip_backward(ierr)
    call refused('between begin_inference and end_inference')
    call in_use('inference)')
  end subroutine

  subroutine step_with(mistake)
    integer, intent(in) :: mistake

    chosen = mistake
    passed = 0
    call context%zero_grad()
    call set_up_too_late()
    call at_rest()
    call a%pre_forward()
    call in_forward()
    call a%post_forward()
    call forward(b)
    call backward(b)
    call a%pre_forward()
    call recomputed()
    call a%post_forward()
    call a%pre_backward()
    call in_backward()
    call write_one(a)
    call a%post_backward()
    if (now()) call sgd%step(ierr)
    call refused("'net.a.w' has no complete gradient; call finish_backward")
    call context%finish_backward()
    call sgd%step()
    if (now()) call sgd%step(ierr)
    call refused('no parameter has a new gradient since the last one; run a backward pass')
    wanted_weight = wanted_weight - num_ranks
    call context%begin_inference()
    call in_inference()
    call context%end_inference()
    call a%unshard()
    call in_use('unshard without reshard)')
    call a%reshard()
    call expect_weights(a)
    call expect_weights(b)
  end subroutine

  subroutine train()
    call step_with(-1)
  end subroutine

  subroutine check_every_mistake(recipe)
    integer(int32), intent(in) :: recipe
    integer :: mistake, all_of_them

    call add_modules(recipe)
    call complete()
    call train()
    all_of_them = passed
    call expect(all_of_them > 55, __LINE__, 'mistakes were left out')
    do mistake = 0, all_of_them - 1
      call step_with(mistake)
      call train()
    end do
    call destroy()
  end subroutine

  !! On all ranks; then training goes on.
  subroutine expect_finish_fails(fragment)
    character(*), intent(in) :: fragment

    call context%finish_backward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, fragment)
    call sgd%step(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'no complete gradient')
    call train()
    call context%zero_grad()
  end subroutine

  subroutine check_reported_at_the_end()
    call add_modules(OSTRAKA_ZERO_3)
    call complete()
    call forward(a)
    call backward(a)
    call expect_finish_fails("module 'net.b' ran neither forward nor backward")
    call forward(a)
    call forward(b)
    call backward(b)
    call expect_finish_fails("module 'net.a' went forward 1 times but backward 0 times")
    call forward(a)
    call forward(b)
    call backward(b)
    call a%pre_backward()
    if (my_rank /= num_ranks - 1) call write_one(a)
    call a%post_backward()
    call expect_finish_fails("module 'net.a': parameter 'w' got no gradient; ask for it and write it")
    call a%reduce_gradients()
    call expect_finish_fails("reduce_gradients of module 'net.a': parameter 'w' got no gradient")
    call destroy()
  end subroutine

  !! The operation was refused; set-up can be completed and trains.
  subroutine expect_cured(status, fragment, line)
    integer(int32), intent(in) :: status
    character(*), intent(in) :: fragment
    integer, intent(in) :: line

    call expect_status(ierr, status, line, fragment)
    call a%set_allow_unused(.false.)
    call complete()
    call train()
    call destroy()
    call add_modules(OSTRAKA_ZERO_3)
  end subroutine

  subroutine check_set_up()
    call add_modules(OSTRAKA_ZERO_3)
    call a%tie_parameter('w', 'fixed', ierr)
    call expect_cured(OSTRAKA_INVALID_ARGUMENT, "'w' exists already", __LINE__)
    call a%tie_parameter('x', 'y', ierr)
    call expect_cured(OSTRAKA_INVALID_ARGUMENT, "'net.a' has no parameter 'y'; it has 'fixed', 'w'", __LINE__)
    call a%tie_parameter('x', 'net.b.w', ierr)
    call expect_cured(OSTRAKA_INVALID_ARGUMENT, "owned by module 'net.b'; a tied parameter has one owner", __LINE__)
    call a%set_precision(main_dtype=OSTRAKA_BF16, ierr=ierr)
    call expect_cured(OSTRAKA_TYPE_MISMATCH, "'net.a': expected a main type of f64 or f32, found bf16", __LINE__)
    call a%set_precision(compute_dtype=99, ierr=ierr)
    call expect_cured(OSTRAKA_INVALID_ARGUMENT, '99', __LINE__)
    call a%set_precision(reduction_dtype=OSTRAKA_F16, ierr=ierr)
    call expect_cured(OSTRAKA_TYPE_MISMATCH, 'reduction type of f64, f32 or bf16, found f16', __LINE__)
    call a%set_prefetch(-7, ierr)
    call expect_cured(OSTRAKA_INVALID_ARGUMENT, "'net.a': expected elements >= 0", __LINE__)
    call a%set_gradient_divisor(0d0, ierr)
    call expect_cured(OSTRAKA_INVALID_ARGUMENT, "'net.a': expected a finite divisor > 0, found 0", __LINE__)
    call context%finalize(ierr)
    call expect_cured(OSTRAKA_INVALID_STATE, "'net.a' is not built", __LINE__)
    call context%begin_backward(ierr)
    call expect_cured(OSTRAKA_INVALID_STATE, 'finalize the context first', __LINE__)
    call context%skip_microbatch(ierr)
    call expect_cured(OSTRAKA_INVALID_STATE, 'finalize the context first', __LINE__)
    call b%skip_forward(ierr)
    call expect_cured(OSTRAKA_INVALID_STATE, 'finalize the context first', __LINE__)
    call b%reduce_gradients(ierr)
    call expect_cured(OSTRAKA_INVALID_STATE, 'finalize the context first', __LINE__)
    call a%initialise('w', numbers, ierr)
    call expect_cured(OSTRAKA_INVALID_STATE, "'net.a': parameter 'w' has no memory before build", __LINE__)
    call a%set_from_root('w', zeros, 0, ierr)
    call expect_cured(OSTRAKA_INVALID_STATE, 'before build', __LINE__)
    call a%build()
    if (num_ranks > 1) then
      call a%set_allow_unused(my_rank == 0)
      call context%finalize(ierr)
      call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, "settings: allow_unused of 'net.a'")
    end if
    call context%destroy()
  end subroutine

  subroutine check_two_fused_optimizers()
    type(ostraka_optimizer_t) :: other

    call add_modules(OSTRAKA_ZERO_3)
    call complete()
    call other%create_adamw(context)
    call sgd%fuse_with_reduction()
    call other%fuse_with_reduction(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "another optimizer updates 'net.a.w'")
    call forward(a)
    call forward(b)
    call backward(b)
    call backward(a)
    call context%finish_backward()
    call other%step(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, '(fuse_with_reduction)')
    call a%pre_forward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "call the optimizer's step first")
    call a%set_parameter('w', zeros, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "call the optimizer's step first")
    call a%set_from_root('w', zeros, 0, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "call the optimizer's step first")
    call a%initialise('w', numbers, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "call the optimizer's step first")
    call a%unshard(ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "call the optimizer's step first")
    call context%begin_inference(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "call the optimizer's step first")
    call sgd%step()
    wanted_weight = wanted_weight - num_ranks
    call expect_weights(a)
    call other%destroy()
    call train()
    call destroy()
  end subroutine

  !! Gradients that are whole until the last micro-batch are reduced once.
  subroutine check_reduced_once()
    call add_modules(OSTRAKA_NO_SHARD)
    call a%set_precision(main_dtype=OSTRAKA_F32)
    call a%build(ierr)
    call expect_status(ierr, OSTRAKA_NOT_SUPPORTED, __LINE__, 'the main type must be f64, found f32')
    call context%destroy()
    call add_modules(OSTRAKA_NO_SHARD)
    call complete()
    call train()
    call forward(a)
    call forward(b)
    call b%pre_backward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'call zero_grad before the next')
    call context%zero_grad()
    call backward(b)
    call backward(a)
    call context%finish_backward()
    call sgd%step()
    wanted_weight = wanted_weight - num_ranks
    call expect_weights(a)
    call train()
    call destroy()
  end subroutine

  !! Only a new context helps.
  subroutine check_lost_order()
    if (num_ranks == 1) return
    call add_modules(OSTRAKA_ZERO_3)
    call complete()
    call train()
    call context%set_last_microbatch(my_rank == 0)
    call forward(a)
    call forward(b)
    call backward(b)
    call backward(a)
    call context%finish_backward(ierr)
    call expect_status(ierr, OSTRAKA_RANKS_DISAGREE, __LINE__, 'set_last_microbatch')
    call a%pre_forward(ierr)
    call expect_status(ierr, OSTRAKA_FAILED, __LINE__, 'can only be destroyed: finish_backward: ranks ran modules')
    call context%zero_grad(ierr)
    call expect_status(ierr, OSTRAKA_FAILED, __LINE__)
    call sgd%step(ierr)
    call expect_status(ierr, OSTRAKA_FAILED, __LINE__)
    call destroy()
    call a%pre_forward(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_HANDLE, __LINE__)
    call add_modules(OSTRAKA_ZERO_3)
    call complete()
    call train()
    call destroy()
  end subroutine
end program
