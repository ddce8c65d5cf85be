! SPDX-License-Identifier: Apache-2.0
!! Optimizers beyond step: norms, clipping and checks of gradients, groups of parameters, numbers of steps.
program optim_test
  use, intrinsic :: ieee_arithmetic, only: ieee_is_finite, ieee_is_nan, ieee_negative_inf, ieee_quiet_nan, ieee_value
  use, intrinsic :: iso_fortran_env, only: int64, real64
  use checks
  use ostraka
  implicit none

  real(real64), parameter :: rate = 0.5d0
  type(ostraka_mesh_t) :: mesh

  call start()
  call mesh%create(MPI_COMM_WORLD%mpi_val)
  call check_gradients(OSTRAKA_ZERO_3)
  call check_gradients(OSTRAKA_NO_SHARD)
  call check_not_finite()
  call check_groups()
  call check_steps()
  call check_fused()
  call mesh%destroy()
  call finish()

contains

  !! A module with a matrix and a bias of ones; plain steps of `rate`.
  subroutine make(context, layer, optimizer, recipe)
    type(ostraka_fsdp_context_t), intent(out) :: context
    type(ostraka_fsdp_module_t), intent(out) :: layer
    type(ostraka_optimizer_t), intent(out) :: optimizer
    integer(int32), intent(in), optional :: recipe
    real(real64) :: ones(3, 2)

    ones = 1
    call context%create(mesh, recipe=recipe)
    call context%add_module('layer', layer)
    call layer%add_parameter('weight', [3, 2])
    call layer%add_parameter('bias', [4])
    call layer%build()
    call layer%set_parameter('weight', ones)
    call layer%set_parameter('bias', [1d0, 1d0, 1d0, 1d0])
    call context%finalize()
    call optimizer%create_sgd(context, learning_rate=rate)
  end subroutine

  !! The gradient of the matrix is 1, that of the bias 1, 2, 3 and `last`.
  subroutine backward(context, layer, last)
    type(ostraka_fsdp_context_t), intent(in) :: context
    type(ostraka_fsdp_module_t), intent(in) :: layer
    real(real64), intent(in) :: last
    real(real64), pointer :: g(:,:), gb(:)
    real(real64) :: beta

    call context%zero_grad()
    call layer%pre_forward()
    call layer%post_forward()
    call layer%pre_backward()
    call layer%gradient('weight', g, beta)
    g = 1
    call layer%gradient('bias', gb, beta)
    gb = [1d0, 2d0, 3d0, last]
    call layer%post_backward()
    call context%finish_backward()
  end subroutine

  subroutine expect_weights(layer, weight, bias, line)
    type(ostraka_fsdp_module_t), intent(in) :: layer
    real(real64), intent(in) :: weight, bias(4)
    integer, intent(in) :: line
    real(real64), pointer :: w(:,:), b(:)

    call layer%unshard()
    call layer%parameter('weight', w)
    call layer%parameter('bias', b)
    call expect(all(abs(w - weight) < 1d-14) .and. all(abs(b - bias) < 1d-14), line)
    call layer%reshard()
  end subroutine

  subroutine check_gradients(recipe)
    integer(int32), intent(in) :: recipe
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: sgd
    real(real64) :: norm, clipped
    integer(int32) :: ierr

    call make(context, layer, sgd, recipe)
    call sgd%gradient_norm(norm, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'layer.weight')
    call backward(context, layer, 4d0)
    call sgd%gradient_norm(norm)
    call expect(abs(norm - 6) < 1d-14, __LINE__)  ! 6 + 1 + 4 + 9 + 16 = 36
    call sgd%gradient_norm(norm, OSTRAKA_NORM_L1)
    call expect(abs(norm - 16) < 1d-14, __LINE__)
    call sgd%gradient_norm(norm, which=OSTRAKA_NORM_MAX)
    call expect(abs(norm - 4) < 1d-14, __LINE__)
    call sgd%gradient_norm(norm, 7, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'found 7')
    call sgd%clip_gradients(6.5d0)
    call sgd%scale_gradients(2d0)
    call sgd%clip_gradients(3d0, norm)
    call expect(abs(norm - 12) < 1d-13, __LINE__)
    call sgd%gradient_norm(clipped)
    call expect(abs(clipped - 3 * 12 / (12 + 1d-6)) < 1d-13, __LINE__)
    call sgd%clip_gradients(-1d0, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'max_norm')
    call sgd%scale_gradients(ieee_value(1d0, ieee_quiet_nan), ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'factor')
    call sgd%scale_gradients((12 + 1d-6) / 12)
    call sgd%step()
    call expect_weights(layer, 1 - rate / 2, 1 - rate / 2 * [1d0, 2d0, 3d0, 4d0], __LINE__)
    call sgd%destroy()
    call context%destroy()
  end subroutine

  subroutine check_not_finite()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: sgd
    real(real64) :: norm
    logical :: answer
    integer(int32) :: ierr

    call make(context, layer, sgd)
    call sgd%is_finite(answer, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__)
    call expect(.not. answer, __LINE__)
    call backward(context, layer, 4d0)
    call sgd%is_finite(answer)
    call expect(answer, __LINE__)
    call sgd%check_finite()
    call backward(context, layer, ieee_value(1d0, ieee_negative_inf))
    call sgd%is_finite(answer)
    call expect(.not. answer, __LINE__)
    call sgd%check_finite(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, "'layer.bias' is -infinite at element 3")
    call sgd%clip_gradients(1d0, norm, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'layer.bias')
    call sgd%gradient_norm(norm)
    call expect(.not. ieee_is_finite(norm) .and. norm > 0, __LINE__)
    call backward(context, layer, ieee_value(1d0, ieee_quiet_nan))
    call sgd%gradient_norm(norm, OSTRAKA_NORM_MAX)
    call expect(ieee_is_nan(norm), __LINE__)
    call sgd%destroy()
    call context%destroy()
  end subroutine

  subroutine check_groups()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: sgd
    integer(int32) :: ierr

    call make(context, layer, sgd)
    call sgd%set_group('layer.wait', ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, "'layer.weight', 'layer.bias'")
    call sgd%set_group('*', weight_decay=-2d0, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'weight_decay')
    call sgd%set_group('*', weight_decay=0.25d0)
    call sgd%set_group('*', weight_decay=0d0, max_dims=1)
    call sgd%set_group('layer.b??s  ', learning_rate_factor=3d0)
    call backward(context, layer, 4d0)
    call sgd%step()
    call expect_weights(layer, 1 - rate * 1.25d0, 1 - 3 * rate * [1d0, 2d0, 3d0, 4d0], __LINE__)
    call sgd%destroy()
    call context%destroy()
  end subroutine

  subroutine check_fused()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: sgd
    real(real64) :: norm
    integer(int32) :: ierr

    call make(context, layer, sgd)
    call sgd%fuse_with_reduction()
    call backward(context, layer, 4d0)
    call sgd%gradient_norm(norm, ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'while it was reduced')
    call layer%unshard(ierr=ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'step first')
    call sgd%step()
    call expect_weights(layer, 1 - rate, 1 - rate * [1d0, 2d0, 3d0, 4d0], __LINE__)
    call sgd%destroy()
    call context%destroy()
  end subroutine

  subroutine check_steps()
    type(ostraka_fsdp_context_t) :: context
    type(ostraka_fsdp_module_t) :: layer
    type(ostraka_optimizer_t) :: sgd, adamw
    integer(int64) :: count
    integer(int32) :: ierr
    real(real64) :: update

    call make(context, layer, sgd)
    call sgd%steps(count)
    call expect(count == 0, __LINE__)
    call backward(context, layer, 4d0)
    call sgd%step()
    call sgd%step(ierr)
    call expect_status(ierr, OSTRAKA_INVALID_STATE, __LINE__, 'new gradient')
    call sgd%steps(count)
    call expect(count == 1, __LINE__)
    call expect_weights(layer, 1 - rate, 1 - rate * [1d0, 2d0, 3d0, 4d0], __LINE__)
    call sgd%destroy()

    call adamw%create_adamw(context, learning_rate=0.25d0, beta1=0.5d0, beta2=0.5d0, epsilon=0d0, weight_decay=0d0)
    call adamw%set_steps(-1_int64, ierr)
    call expect_status(ierr, OSTRAKA_INVALID_ARGUMENT, __LINE__, 'steps >= 0')
    call adamw%set_steps(2_int64)
    call adamw%step()
    call adamw%steps(count)
    call expect(count == 3, __LINE__)
    update = 0.25d0 * (0.5d0 / (1 - 0.5d0**3)) / sqrt(0.5d0 / (1 - 0.5d0**3))
    call expect_weights(layer, 1 - rate - update, 1 - rate * [1d0, 2d0, 3d0, 4d0] - update, __LINE__)
    call adamw%destroy()
    call context%destroy()
  end subroutine
end program
