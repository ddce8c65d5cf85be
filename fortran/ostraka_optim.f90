! SPDX-License-Identifier: Apache-2.0
!! Internal: optimizers on the local shards of a context. Use the module `ostraka`.
module ostraka_optim
  use, intrinsic :: iso_c_binding, only: c_null_ptr, c_ptr, c_sizeof
  use, intrinsic :: iso_fortran_env, only: int32, int64, real64
  use ostraka_c_fsdp
  use ostraka_fsdp, only: context_handle, ostraka_fsdp_context_t
  use ostraka_support, only: conclude
  use ostraka_types
  implicit none
  private
  public :: ostraka_optimizer_t

  !! Updates all trainable parameters of a context. Assignment copies the handle, not the optimizer.
  type :: ostraka_optimizer_t
    private
    type(c_ptr) :: handle = c_null_ptr
  contains
    procedure, public :: create_adamw
    procedure, public :: create_sgd
    procedure, public :: set_learning_rate
    procedure, public :: step
    procedure, public :: destroy
  end type

contains

  !! AdamW on a finalised context. Local. Overwrites the handle. Defaults: learning_rate 1e-3, beta1 0.9, beta2 0.999,
  !! epsilon 1e-8, weight_decay 1e-2 (decoupled).
  subroutine create_adamw(self, context, learning_rate, beta1, beta2, epsilon, weight_decay, ierr)
    class(ostraka_optimizer_t), intent(out) :: self
    class(ostraka_fsdp_context_t), intent(in) :: context
    real(real64), intent(in), optional :: learning_rate, beta1, beta2, epsilon, weight_decay
    integer(int32), intent(out), optional :: ierr
    type(c_adamw_config_t) :: config
    integer(int32) :: status

    status = c_adamw_config_init_versioned(config, int(c_sizeof(config), int64), OSTRAKA_ADAMW_CONFIG_VERSION)
    if (status == OSTRAKA_OK) then
      if (present(learning_rate)) config%learning_rate = learning_rate
      if (present(beta1)) config%beta1 = beta1
      if (present(beta2)) config%beta2 = beta2
      if (present(epsilon)) config%epsilon = epsilon
      if (present(weight_decay)) config%weight_decay = weight_decay
      status = c_adamw_create(context_handle(context), config, self%handle)
    end if
    call conclude('optimizer%create_adamw', status, ierr)
  end subroutine

  !! Stochastic gradient descent on a finalised context. Local. Overwrites the handle. Defaults: learning_rate 1e-3,
  !! momentum 0, weight_decay 0.
  subroutine create_sgd(self, context, learning_rate, momentum, weight_decay, ierr)
    class(ostraka_optimizer_t), intent(out) :: self
    class(ostraka_fsdp_context_t), intent(in) :: context
    real(real64), intent(in), optional :: learning_rate, momentum, weight_decay
    integer(int32), intent(out), optional :: ierr
    type(c_sgd_config_t) :: config
    integer(int32) :: status

    status = c_sgd_config_init_versioned(config, int(c_sizeof(config), int64), OSTRAKA_SGD_CONFIG_VERSION)
    if (status == OSTRAKA_OK) then
      if (present(learning_rate)) config%learning_rate = learning_rate
      if (present(momentum)) config%momentum = momentum
      if (present(weight_decay)) config%weight_decay = weight_decay
      status = c_sgd_create(context_handle(context), config, self%handle)
    end if
    call conclude('optimizer%create_sgd', status, ierr)
  end subroutine

  !! For the steps to come. Local.
  subroutine set_learning_rate(self, learning_rate, ierr)
    class(ostraka_optimizer_t), intent(in) :: self
    real(real64), intent(in) :: learning_rate
    integer(int32), intent(out), optional :: ierr

    call conclude('optimizer%set_learning_rate', c_optimizer_set_learning_rate(self%handle, learning_rate), ierr)
  end subroutine

  !! Updates the weights from the gradients, which stay until zero_grad. Collective over the mesh.
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
