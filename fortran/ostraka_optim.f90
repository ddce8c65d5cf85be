! SPDX-License-Identifier: Apache-2.0
!! Internal: optimizers on a context or a ddp. Use the module `ostraka`.
module ostraka_optim
  use, intrinsic :: iso_c_binding, only: c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use ostraka_c_fsdp
  use ostraka_ddp, only: ddp_handle, ostraka_ddp_t
  use ostraka_fsdp, only: context_handle, ostraka_fsdp_context_t
  use ostraka_support, only: conclude, to_c_string
  use ostraka_types
  implicit none
  private
  public :: ostraka_optimizer_t

  !! Updates all trainable parameters of a context or a ddp. Assignment copies the handle, not the optimizer.
  type :: ostraka_optimizer_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, private :: create_adamw_context, create_adamw_ddp
    !! AdamW on a finalised context or ddp. Local. Overwrites the handle. Defaults: learning_rate 1e-3, beta1 0.9, beta2
    !! 0.999, epsilon 1e-8, weight_decay 1e-2 (decoupled).
    generic, public :: create_adamw => create_adamw_context, create_adamw_ddp
    procedure, private :: create_sgd_context, create_sgd_ddp
    !! Stochastic gradient descent on a finalised context or ddp. Local. Overwrites the handle. Defaults: learning_rate
    !! 1e-3, momentum 0, weight_decay 0.
    generic, public :: create_sgd => create_sgd_context, create_sgd_ddp
    procedure, public :: set_learning_rate
    procedure, public :: set_group
    procedure, public :: gradient_norm
    procedure, public :: clip_gradients
    procedure, public :: scale_gradients
    procedure, public :: check_finite
    procedure, public :: is_finite
    procedure, public :: steps
    procedure, public :: set_steps
    procedure, public :: fuse_with_reduction
    procedure, public :: step
    procedure, public :: destroy
  end type

contains

  subroutine create_adamw_context(self, context, learning_rate, beta1, beta2, epsilon, weight_decay, ierr)
    class(ostraka_optimizer_t), intent(out) :: self
    class(ostraka_fsdp_context_t), intent(in) :: context
    real(real64), intent(in), optional :: learning_rate, beta1, beta2, epsilon, weight_decay
    integer(int32), intent(out), optional :: ierr
    type(c_adamw_config_t) :: config
    integer(int32) :: status

    call fill_adamw(config, status, learning_rate, beta1, beta2, epsilon, weight_decay)
    if (status == OSTRAKA_OK) status = c_adamw_create(context_handle(context), config, self%handle)
    call conclude('optimizer%create_adamw', status, ierr)
  end subroutine

  subroutine create_adamw_ddp(self, ddp, learning_rate, beta1, beta2, epsilon, weight_decay, ierr)
    class(ostraka_optimizer_t), intent(out) :: self
    class(ostraka_ddp_t), intent(in) :: ddp
    real(real64), intent(in), optional :: learning_rate, beta1, beta2, epsilon, weight_decay
    integer(int32), intent(out), optional :: ierr
    type(c_adamw_config_t) :: config
    integer(int32) :: status

    call fill_adamw(config, status, learning_rate, beta1, beta2, epsilon, weight_decay)
    if (status == OSTRAKA_OK) status = c_adamw_create_ddp(ddp_handle(ddp), config, self%handle)
    call conclude('optimizer%create_adamw', status, ierr)
  end subroutine

  subroutine create_sgd_context(self, context, learning_rate, momentum, weight_decay, ierr)
    class(ostraka_optimizer_t), intent(out) :: self
    class(ostraka_fsdp_context_t), intent(in) :: context
    real(real64), intent(in), optional :: learning_rate, momentum, weight_decay
    integer(int32), intent(out), optional :: ierr
    type(c_sgd_config_t) :: config
    integer(int32) :: status

    call fill_sgd(config, status, learning_rate, momentum, weight_decay)
    if (status == OSTRAKA_OK) status = c_sgd_create(context_handle(context), config, self%handle)
    call conclude('optimizer%create_sgd', status, ierr)
  end subroutine

  subroutine create_sgd_ddp(self, ddp, learning_rate, momentum, weight_decay, ierr)
    class(ostraka_optimizer_t), intent(out) :: self
    class(ostraka_ddp_t), intent(in) :: ddp
    real(real64), intent(in), optional :: learning_rate, momentum, weight_decay
    integer(int32), intent(out), optional :: ierr
    type(c_sgd_config_t) :: config
    integer(int32) :: status

    call fill_sgd(config, status, learning_rate, momentum, weight_decay)
    if (status == OSTRAKA_OK) status = c_sgd_create_ddp(ddp_handle(ddp), config, self%handle)
    call conclude('optimizer%create_sgd', status, ierr)
  end subroutine

  !! The defaults and what is present.
  subroutine fill_adamw(config, status, learning_rate, beta1, beta2, epsilon, weight_decay)
    type(c_adamw_config_t), intent(out) :: config
    integer(int32), intent(out) :: status
    real(real64), intent(in), optional :: learning_rate, beta1, beta2, epsilon, weight_decay

    status = c_adamw_config_init_versioned(config, int(c_sizeof(config), int64), OSTRAKA_ADAMW_CONFIG_VERSION)
    if (status /= OSTRAKA_OK) return
    if (present(learning_rate)) config%learning_rate = learning_rate
    if (present(beta1)) config%beta1 = beta1
    if (present(beta2)) config%beta2 = beta2
    if (present(epsilon)) config%epsilon = epsilon
    if (present(weight_decay)) config%weight_decay = weight_decay
  end subroutine

  subroutine fill_sgd(config, status, learning_rate, momentum, weight_decay)
    type(c_sgd_config_t), intent(out) :: config
    integer(int32), intent(out) :: status
    real(real64), intent(in), optional :: learning_rate, momentum, weight_decay

    status = c_sgd_config_init_versioned(config, int(c_sizeof(config), int64), OSTRAKA_SGD_CONFIG_VERSION)
    if (status /= OSTRAKA_OK) return
    if (present(learning_rate)) config%learning_rate = learning_rate
    if (present(momentum)) config%momentum = momentum
    if (present(weight_decay)) config%weight_decay = weight_decay
  end subroutine

  !! For the steps to come. Local.
  subroutine set_learning_rate(self, learning_rate, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    real(real64), intent(in) :: learning_rate
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%set_learning_rate', c_optimizer_set_learning_rate(self%handle, learning_rate), ierr)
  end subroutine

  !! From the next step on these hold for the trainable parameters 'module.parameter' that are called `pattern`, where
  !! * stands for any characters and ? for one: learning_rate_factor (times the learning rate of the optimizer) and
  !! weight_decay; what is absent stays as it was. max_dims: only parameters with at most so many dimensions, so
  !! ('*', weight_decay=0d0, max_dims=1) is no decay of biases. Later calls win. Local, the same on all ranks.
  subroutine set_group(self, pattern, learning_rate_factor, weight_decay, max_dims, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    character(*), intent(in) :: pattern
    real(real64), intent(in), optional :: learning_rate_factor, weight_decay
    integer, intent(in), optional :: max_dims
    integer(int32), intent(out), optional :: ierr
    type(c_group_options_t) :: options
    integer(int32) :: status

    status = c_group_options_init_versioned(options, int(c_sizeof(options), int64), OSTRAKA_GROUP_OPTIONS_VERSION)
    if (status == OSTRAKA_OK) then
      if (present(learning_rate_factor)) options%learning_rate_factor = learning_rate_factor
      if (present(weight_decay)) options%weight_decay = weight_decay
      if (present(max_dims)) options%max_dims = int(max_dims, int32)
      status = c_optimizer_set_group(self%handle, to_c_string(pattern), options)
    end if
    call conclude('optimizer%set_group', status, ierr)
  end subroutine

  !! The norm of all gradients as one vector, equal on all ranks: OSTRAKA_NORM_L2 (the default), OSTRAKA_NORM_L1 or
  !! OSTRAKA_NORM_MAX. Between finish_backward (finish_grad_sync) and step. NaN or infinite when an element is.
  !! Collective over the mesh.
  subroutine gradient_norm(self, norm, which, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    real(real64), intent(out) :: norm
    integer(int32), intent(in), optional :: which
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: asked

    asked = OSTRAKA_NORM_L2
    if (present(which)) asked = which
    norm = 0
    call conclude('optimizer%gradient_norm', c_optimizer_gradient_norm(self%handle, asked, norm), ierr)
  end subroutine

  !! Multiplies the gradients by max_norm / (norm + 1e-6) when their l2 norm is larger than max_norm; `norm` is that of
  !! before. A gradient that is not finite is an error on all ranks, which changes nothing. Collective over the mesh.
  subroutine clip_gradients(self, max_norm, norm, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    real(real64), intent(in) :: max_norm
    real(real64), intent(out), optional :: norm
    integer(int32), intent(out), optional :: ierr
    real(real64) :: found

    found = 0
    call conclude('optimizer%clip_gradients', c_optimizer_clip_gradients(self%handle, max_norm, found), ierr)
    if (present(norm)) norm = found
  end subroutine

  !! Multiplies the gradients by a finite number. Local, the same on all ranks.
  subroutine scale_gradients(self, factor, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    real(real64), intent(in) :: factor
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%scale_gradients', c_optimizer_scale_gradients(self%handle, factor), ierr)
  end subroutine

  !! An error on all ranks when a gradient is NaN or infinite; names the first parameter that has one, where in it (in
  !! the order of memory, from 0) and the rank. Collective over the mesh.
  subroutine check_finite(self, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%check_finite', c_optimizer_check_finite(self%handle), ierr)
  end subroutine

  !! Whether all gradients are finite; equal on all ranks. Collective over the mesh.
  subroutine is_finite(self, answer, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    logical, intent(out) :: answer
    integer(int32), intent(out), optional :: ierr
    integer(int32) :: found, status

    found = 0
    status = c_optimizer_is_finite(self%handle, found)
    answer = status == OSTRAKA_OK .and. found /= 0
    call conclude('optimizer%is_finite', status, ierr)
  end subroutine

  !! The steps so far. Local.
  subroutine steps(self, count, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    integer(int64), intent(out) :: count
    integer(int32), intent(out), optional :: ierr

    count = 0
    call conclude('optimizer%steps', c_optimizer_steps(self%handle, count), ierr)
  end subroutine

  !! For a run that is continued: the corrections of AdamW depend on the number of steps. Local.
  subroutine set_steps(self, count, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    integer(int64), intent(in) :: count
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%set_steps', c_optimizer_set_steps(self%handle, count), ierr)
  end subroutine

  !! From now on weights are updated while the gradients of the last micro-batch are reduced, and a step only completes
  !! that: until then weights cannot be used, main gradients are gone, norms and clipping with them, and hyperparameters
  !! are set before the backward pass. A failure in the last micro-batch ends the context, since weights are then
  !! between two steps. Collective over the mesh.
  subroutine fuse_with_reduction(self, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%fuse_with_reduction', c_optimizer_fuse_with_reduction(self%handle), ierr)
  end subroutine

  !! Updates the weights from the gradients, which stay until zero_grad; a second step without a backward pass in
  !! between is an error. Collective over the mesh.
  subroutine step(self, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%step', c_optimizer_step(self%handle), ierr)
  end subroutine

  !! Destroys the optimizer and nulls the handle. Local.
  subroutine destroy(self, ierr)
    class(ostraka_optimizer_t), intent(inout) :: self
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%destroy', c_optimizer_destroy(self%handle), ierr)
  end subroutine
end module
